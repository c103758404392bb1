"""Transactions from the producer's side: records and offsets that count together, or not at all.

What decides is pure: `state` knows what may be done next, `answers` what a coordinator's code means, `messages` what is said. What waits
is thin: `conversation` asks a coordinator until the answer is final, `manager` runs a transaction, `calls` is what a program sees.
"""

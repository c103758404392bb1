"""Sharing a topic's partitions among the consumers of a group, and remembering how far they are.

What decides is pure and told the time: the assignors, the two memberships (classic, and KIP-848), when to commit and what an answer means.
What waits is thin: `session` keeps the member in its group, `commit_calls` asks the coordinator, `group` is what a program sees.
"""

"""Transactions: the machine of one partition of `__transaction_state`, which knows every transactional id that lives there."""

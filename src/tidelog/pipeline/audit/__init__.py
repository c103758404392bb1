"""Audit: whether the replicas of a cluster agree, and each log is what a log may be, from the files alone.

`claims.py` reads what the small files beside the logs promise, `ranges.py` says what follows from it, `checks.py` holds the segments against
that in SQL, `transactions.py` asks the coordinator's own log about what is open, and `running.py` puts it together into a `report.py`.
"""

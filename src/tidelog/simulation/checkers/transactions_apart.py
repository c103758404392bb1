"""I8: no record of one transaction lies inside another, in any log.

Between two markers of a producer there are records of one transaction only; nothing of a transaction comes after its marker; and all its
batches are of one epoch, which its marker's is not below.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.checkers.transaction_logs import LoggedTransaction


class TransactionsApart:
    """Reads the logs of all replicas from marker to marker."""

    name = "I8 transactions stay apart"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Transactions that are mixed, or spread over several."""
        history = ending.history.transactions
        for topic_partition, logs in ending.transaction_logs.items():
            for broker_id, log in logs.items():
                where = f"{topic_partition} on broker {broker_id}"
                begun: dict[str, LoggedTransaction] = {}
                for logged in log.transactions:
                    named = [history.transaction_of(value) for value in logged.values.values()]
                    names = list(dict.fromkeys(each.name for each in named if each is not None))
                    if len(names) > 1:
                        yield f"{where} has records of {' and '.join(names)} in one transaction"
                    for name in names:
                        first = begun.setdefault(name, logged)
                        if first is not logged:
                            yield f"{where} has records of {name} also after its marker at {first.marker_offset}"
                    yield from _epochs(where, logged)


def _epochs(where: str, logged: LoggedTransaction) -> Iterator[str]:
    if len(set(logged.epochs)) > 1:
        yield f"{where} has batches of the epochs {logged.epochs} in the transaction at {logged.first_offset}"
    if logged.marker_epoch is not None and logged.marker_epoch < max(logged.epochs):
        yield (
            f"{where} has a marker of epoch {logged.marker_epoch} at {logged.marker_offset} for a transaction of epoch "
            f"{max(logged.epochs)}"
        )

"""I8: readers of what is committed are given nothing that was aborted, or that nobody has asked to commit yet.

Looked at as it is read, and once more in the end: a transaction whose client learns only later that it was aborted must not have been seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.transaction_history import Reading, TransactionHistory


class NoAbortedRead:
    """Looks at every record that a reader was given."""

    name = "I8 nothing aborted is read"

    def __init__(self, history: TransactionHistory) -> None:
        self._history = history
        self._seen = 0

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What was read since the last look."""
        del snapshot
        readings = self._history.readings[self._seen :]
        self._seen += len(readings)
        for reading in readings:
            yield from _wrong(self._history, reading)


class NothingAbortedWasRead:
    """The same when everything is over, also of what a fresh reader is given."""

    name = NoAbortedRead.name

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Records that nobody should have been given."""
        history = ending.history.transactions
        for reading in history.readings:
            yield from _wrong(history, reading)
        for topic_partition, found in ending.committed.items():
            for offset, value in found.items():
                yield from _wrong(history, Reading("a fresh reader", topic_partition, offset, value))


def _wrong(history: TransactionHistory, reading: Reading) -> Iterator[str]:
    transaction = history.transaction_of(reading.value)
    if transaction is None or not transaction.may_be_seen:
        how = "of no transaction" if transaction is None else f"of a transaction that is {transaction.fate.value}"
        yield (
            f"{reading.reader} was given {reading.value!r} at offset {reading.offset} of {reading.topic_partition}, "
            f"{how}"
        )

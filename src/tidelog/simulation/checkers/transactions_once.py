"""What was committed is there once: every record of a transaction whose commit was acknowledged, in its partition, and no record twice.

A transaction whose fate nobody was told is there as a whole or not at all (see `no_torn_transaction`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.model import Offset, TopicPartition
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.transaction_history import Fate


class TransactionsOnce:
    """Looks at what a fresh reader of what is committed is given."""

    name = "I8 what was committed is there once"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Records that are missing, there twice, or in another partition."""
        history = ending.history.transactions
        places: dict[bytes, tuple[TopicPartition, Offset]] = {}
        for topic_partition, found in ending.committed.items():
            for offset, value in found.items():
                first = places.setdefault(value, (topic_partition, offset))
                if first != (topic_partition, offset):
                    yield f"{value!r} is at offset {offset} of {topic_partition} and at {first[1]} of {first[0]}"
        for transaction in history.transactions.values():
            if transaction.is_contradicted:
                yield f"{transaction.name} was told to be committed, and to be aborted"
            if transaction.fate is not Fate.COMMITTED:
                continue
            for value, entry in transaction.entries.items():
                place = places.get(value)
                if place is None or place[0] != entry.topic_partition:
                    yield f"{value!r} was committed to {entry.topic_partition}, and is {_told(place)}"


def _told(place: tuple[TopicPartition, Offset] | None) -> str:
    return "nowhere" if place is None else f"at offset {place[1]} of {place[0]}"

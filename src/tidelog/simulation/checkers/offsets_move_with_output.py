"""Consume, transform, produce: every record below a group's committed offset has exactly one copy, and none above it has any.

The offsets of a group are committed in the transactions of its copies, so both are there or neither. What is copied is what a fresh reader
of what is committed is given of the group's topic.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.transaction_history import Source


class OffsetsMoveWithOutput:
    """Counts the copies of each record."""

    name = "offsets move with output"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Records with no copy, with two, or with one that came too early."""
        for group, (source, target) in ending.history.transactions.copied.items():
            copies = _copies(ending, target)
            committed = ending.committed_offsets.get(group, {})
            for topic_partition, found in ending.committed.items():
                if topic_partition.topic != source:
                    continue
                upto = committed.get(topic_partition, 0)
                for offset, value in found.items():
                    count, expected = copies.get(Source(topic_partition, offset), 0), int(offset < upto)
                    if count != expected:
                        yield (
                            f"{value!r} at offset {offset} of {topic_partition} has {count} copies in {target}, and {group} "
                            f"has committed {upto}"
                        )


def _copies(ending: Ending, target: str) -> dict[Source, int]:
    counts: dict[Source, int] = {}
    for topic_partition, found in ending.committed.items():
        for value in found.values() if topic_partition.topic == target else ():
            transaction = ending.history.transactions.transaction_of(value)
            entry = None if transaction is None else transaction.entries.get(value)
            if entry is not None and entry.source is not None:
                counts[entry.source] = counts.get(entry.source, 0) + 1
    return counts

"""What a reader was given lies in the log of every replica for good, at that offset and with that value.

Whoever wrote it, and with which acks: nobody may be shown what is not committed. Not claimed where unclean elections are allowed, below
what clients had deleted, and of topics that were deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending


class NothingReadVanishes:
    """Compares every reading with the logs."""

    name = "nothing that was read vanishes"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Readings that the logs do not bear out."""
        history = ending.history
        for reader in history.readers:
            for topic_partition, offset, value in history.readings_of(reader):
                if not history.is_promised(topic_partition.topic) or offset < history.deleted_before(topic_partition):
                    continue
                for broker_id, found in ending.replicas(topic_partition):
                    if found.get(offset) != value:
                        yield (
                            f"{reader} was given {value!r} at offset {offset} of {topic_partition}, "
                            f"broker {broker_id} has {found.get(offset)!r} there"
                        )

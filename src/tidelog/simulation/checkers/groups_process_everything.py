"""Every group processes every acknowledged record of the topics it reads, at least once.

Not claimed below what clients had deleted. Operators reset these groups to earlier offsets only.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending


class GroupsProcessEverything:
    """Compares what members were given with what was promised to producers."""

    name = "groups process everything"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Records that a group has left out, or was given with other bytes."""
        history = ending.history
        for group, partitions in history.groups.read_by.items():
            for topic_partition in partitions:
                processed = history.groups.processed.get((group, topic_partition), {})
                start = history.deleted_before(topic_partition)
                for offset, value in history.promised.promised.get(topic_partition, {}).items():
                    if offset >= start and processed.get(offset) != value:
                        yield (
                            f"{group} was given {processed.get(offset)!r} at offset {offset} of {topic_partition}, "
                            f"where {value!r} was acknowledged"
                        )

"""I1: a record acknowledged with acks=all stays at its offset, for ever, with its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.model import Offset, TopicPartition


class AcknowledgedStays:
    """What a workload was promised. `missing` compares it with what can be read now."""

    name = "I1 what was acknowledged stays"

    def __init__(self) -> None:
        self.promised: dict[TopicPartition, dict[Offset, bytes]] = {}

    def acknowledge(self, topic_partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A producer was told that its record is safe at this offset."""
        self.promised.setdefault(topic_partition, {})[offset] = value

    @property
    def count(self) -> int:
        """Records promised so far."""
        return sum(map(len, self.promised.values()))

    def missing(self, topic_partition: TopicPartition, found: Mapping[Offset, bytes]) -> Iterator[str]:
        """What is not, or not as promised, among all that can be read of a partition."""
        for offset, value in self.promised.get(topic_partition, {}).items():
            if found.get(offset) != value:
                yield f"{topic_partition}: {value!r} was acknowledged at offset {offset}, there is {found.get(offset)!r}"

"""I1: a record acknowledged with acks=all stays at its offset, for ever, with its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.model import Offset, TopicPartition
from tidelog.simulation.checkers.ending import Ending


class AcknowledgedStays:
    """What a workload was promised. `missing` compares it with what can be read now."""

    name = "I1 what was acknowledged stays"

    def __init__(self) -> None:
        self.promised: dict[TopicPartition, dict[Offset, bytes]] = {}

    def acknowledge(self, topic_partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A producer was told that its record is safe at this offset. The first promise stands, whatever is promised there later."""
        self.promised.setdefault(topic_partition, {}).setdefault(offset, value)

    @property
    def count(self) -> int:
        """Records promised so far."""
        return sum(map(len, self.promised.values()))

    def missing(self, topic_partition: TopicPartition, found: Mapping[Offset, bytes]) -> Iterator[str]:
        """What is not, or not as promised, among all that can be read of a partition."""
        for offset, value in self.promised.get(topic_partition, {}).items():
            if found.get(offset) != value:
                yield f"{topic_partition}: {value!r} was acknowledged at offset {offset}, there is {found.get(offset)!r}"


class AcknowledgedStayed:
    """The same when everything is over: each promised record lies at its offset on every assigned replica, and is what a consumer reads.

    Not claimed below what clients had deleted, and of topics that were deleted.
    """

    name = "I1 what was acknowledged stays"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Promises that were not kept."""
        for topic_partition, promised in ending.history.promised.promised.items():
            if topic_partition not in ending.snapshot.states:
                yield f"{topic_partition}, of which {len(promised)} records are promised, is not there any more"
            start = ending.history.deleted_before(topic_partition)
            places = [(f"broker {broker_id}", found) for broker_id, found in ending.replicas(topic_partition)]
            for where, found in (*places, ("a consumer", ending.consumed.get(topic_partition, {}))):
                for offset, value in promised.items():
                    if offset >= start and found.get(offset) != value:
                        yield (
                            f"{topic_partition}: {value!r} was acknowledged at offset {offset}, "
                            f"{where} finds {found.get(offset)!r}"
                        )

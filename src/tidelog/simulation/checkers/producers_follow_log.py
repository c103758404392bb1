"""I7 on every replica: what a log remembers of its producers is what lies in it.

A leader answers a retry from that memory. One that remembers batches which are gone acknowledges what is nowhere, but only if the right
retry comes at the right moment; so the memory is looked at, not the answer. Claimed: no producer's newest batch ends behind the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.simulation.observer import Snapshot


class Hosts(Protocol):
    """A broker that can be looked into."""

    @property
    def broker_id(self) -> BrokerId:
        """Who it is."""
        ...

    def partitions(self) -> Iterable[Partition]:
        """Its replicas."""
        ...


class ProducersFollowLog:
    """Looks again at a log that has grown or was cut."""

    name = "I7 producers are known by the log"

    def __init__(self, brokers: Iterable[Hosts]) -> None:
        self._brokers = brokers
        self._seen: dict[tuple[BrokerId, TopicPartition], tuple[int, Offset]] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Producers of whom more is remembered than the log holds."""
        del snapshot
        for broker in self._brokers:
            for partition in broker.partitions():
                key, log = (broker.broker_id, partition.topic_partition), partition.log
                seen = (log.cut_count, log.log_end_offset)
                if self._seen.get(key) != seen:
                    self._seen[key] = seen
                    yield from _strays(broker.broker_id, partition)


def _strays(broker_id: BrokerId, partition: Partition) -> Iterator[str]:
    end_offset = partition.log.log_end_offset
    for known in partition.log.producers:
        if known.last_offset >= end_offset:
            yield (
                f"{partition.topic_partition}: broker {broker_id} remembers a batch of producer {known.producer_id} up to offset "
                f"{known.last_offset}, and its log ends at {end_offset}"
            )

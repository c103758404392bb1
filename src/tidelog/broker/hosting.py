"""Which replicas a broker hosts, and what the controller says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.broker.flusher import DirectoryFlusher
from tidelog.broker.topic_traffic import TopicTraffic
from tidelog.config import LogConfig
from tidelog.model import TopicId, TopicPartition
from tidelog.partition import Leadership, Partition
from tidelog.storage import LogDirectory


@dataclass(slots=True)
class Hosted:
    """A replica and the directory that holds it."""

    partition: Partition
    directory: LogDirectory
    flusher: DirectoryFlusher


class Told(NamedTuple):
    """What the controller says of one replica of ours."""

    topic_partition: TopicPartition
    topic_id: TopicId
    config: LogConfig
    leadership: Leadership
    is_new: bool  # Nothing of it can lie in a directory that is offline.


class Hosting:
    """The replicas by partition, and the partitions by topic."""

    def __init__(self) -> None:
        self._hosted: dict[TopicPartition, Hosted] = {}
        self._by_topic: dict[str, dict[TopicPartition, None]] = {}
        self.unavailable: dict[TopicPartition, Told] = {}
        """Replicas that are ours, but whose logs cannot be had at present."""
        self.traffic = TopicTraffic()

    def __contains__(self, topic_partition: object) -> bool:
        """Whether the replica is ours, be it that its log cannot be had at present."""
        return topic_partition in self._hosted or topic_partition in self.unavailable

    def get(self, topic_partition: TopicPartition) -> Hosted | None:
        """The replica, if it is here."""
        return self._hosted.get(topic_partition)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The replica, also one whose directory has failed; None where there is none."""
        hosted = self._hosted.get(topic_partition)
        return None if hosted is None else hosted.partition

    def holds(self, partition: Partition) -> bool:
        """Whether this very replica is still here; its topic may have been deleted meanwhile."""
        return self.partition(partition.topic_partition) is partition

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether the replica is here, but on a directory that has failed."""
        hosted = self._hosted.get(topic_partition)
        return hosted is not None and hosted.directory.failure is not None

    def pairs(self) -> list[tuple[TopicPartition, Hosted]]:
        """All of them, as they are now."""
        return list(self._hosted.items())

    def of_topic(self, topic: str) -> Iterator[Partition]:
        """The replicas of one topic."""
        for topic_partition in list(self._by_topic.get(topic, ())):
            yield self._hosted[topic_partition].partition

    def add(self, hosted: Hosted) -> None:
        """One more."""
        topic_partition = hosted.partition.topic_partition
        self._hosted[topic_partition] = hosted
        self._by_topic.setdefault(topic_partition.topic, {})[topic_partition] = None
        self.traffic.meet(topic_partition.topic)

    def remove(self, topic_partition: TopicPartition) -> Hosted | None:
        """One less; which it was, if it was here."""
        hosted = self._hosted.pop(topic_partition, None)
        if hosted is not None:
            of_topic = self._by_topic[topic_partition.topic]
            del of_topic[topic_partition]
            if not of_topic:
                del self._by_topic[topic_partition.topic]
                self.traffic.forget(topic_partition.topic)
        return hosted

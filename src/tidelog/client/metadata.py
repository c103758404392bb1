"""What we know of the cluster, and since when. Pure: fed with Metadata answers and leader hints, told the time.

A partition's leader epoch never goes back (KIP-320): an answer from a broker that has not heard of the last election yet is ignored for
that partition. Only a topic that was deleted and created again, known by its other id, starts over; a broker that has not heard of the
topic at all makes us forget where it is, but not its epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from tidelog.model import (
    NO_LEADER_EPOCH,
    BrokerEndpoint,
    BrokerId,
    ErrorCode,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_LEADER: BrokerId = -1


class Leader(NamedTuple):
    """Who leads a partition, and since which election."""

    broker_id: BrokerId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """Who leads a partition and who follows."""

    index: int
    leader: Leader
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()
    code: ErrorCode = ErrorCode.NONE

    @property
    def has_leader(self) -> bool:
        """Whether there is anyone to ask."""
        return self.leader.broker_id != NO_LEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic that exists, its partitions in order."""

    name: str
    topic_id: TopicId | None
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]

    @property
    def has_all_leaders(self) -> bool:
        """Whether every partition can be written and read."""
        return all(partition.has_leader for partition in self.partitions)


class MetadataCache:
    """The newest view of the cluster that all the answers so far allow."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id: BrokerId = NO_LEADER
        self._updated_ms: float | None = None
        self._brokers: dict[BrokerId, BrokerEndpoint] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._unheard_of: dict[str, TopicMetadata] = {}  # as they were when a broker did not know them
        self._errors: dict[str, ErrorCode] = {}

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerEndpoint]:
        """Live brokers, by id."""
        return MappingProxyType(self._brokers)

    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """Topics known to exist."""
        return MappingProxyType(self._topics)

    @property
    def updated_ms(self) -> float | None:
        """When the last answer came; None before the first."""
        return self._updated_ms

    def topic(self, name: str) -> TopicMetadata | None:
        """What is known of a topic."""
        return self._topics.get(name)

    def error_of(self, topic: str) -> ErrorCode:
        """Why a topic was missing from the last answer that was asked about it."""
        return self._errors.get(topic, ErrorCode.NONE)

    def topic_id(self, name: str) -> TopicId | None:
        """A topic's id, where brokers tell it."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def leader_of(self, topic_partition: TopicPartition) -> Leader | None:
        """Who leads the partition, if anyone and if known.

        A broker that was away for a while may have told us of brokers among which the leader, whose epoch it did not know, is missing: it
        leads, but nobody knows where.
        """
        partition = self.partition(topic_partition)
        if partition is None or not partition.has_leader or partition.leader.broker_id not in self._brokers:
            return None
        return partition.leader

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """What is known of a partition."""
        topic = self._topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.index < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.index]

    def update(self, response: MetadataResponse, now_ms: float) -> bool:
        """Take in an answer, and return whether it was news. Topics it does not mention stay as they are."""
        before = (self.controller_id, self._brokers, dict(self._topics), dict(self._errors))
        self._updated_ms = now_ms
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        self._brokers = {
            broker.node_id: BrokerEndpoint(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic)
        return before != (self.controller_id, self._brokers, self._topics, self._errors)

    def retain_topics(self, names: Iterable[str]) -> None:
        """Forget all topics but these."""
        wanted = frozenset(names)
        self._topics = {name: topic for name, topic in self._topics.items() if name in wanted}
        self._unheard_of = {name: topic for name, topic in self._unheard_of.items() if name in wanted}
        self._errors = {name: code for name, code in self._errors.items() if name in wanted}

    def on_leader_hint(
        self, topic_partition: TopicPartition, leader: Leader, endpoints: Iterable[BrokerEndpoint]
    ) -> bool:
        """An error answer named the new leader (KIP-951); returns whether that was news."""
        held = self.partition(topic_partition)
        if held is None or leader.broker_id == NO_LEADER or leader.leader_epoch <= held.leader.leader_epoch:
            return False
        self._brokers = self._brokers | {endpoint.broker_id: endpoint for endpoint in endpoints}
        if leader.broker_id not in self._brokers:
            return False
        topic = self._topics[topic_partition.topic]
        moved = PartitionMetadata(index=held.index, leader=leader, replicas=held.replicas, isr=held.isr)
        partitions = tuple(moved if partition is held else partition for partition in topic.partitions)
        self._topics[topic.name] = TopicMetadata(
            name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
        )
        return True

    def _update_topic(self, name: str, answer: MetadataResponseTopic) -> None:
        partitions = sorted(answer.partitions, key=lambda partition: partition.partition_index)
        is_usable = bool(partitions) and [p.partition_index for p in partitions] == list(range(len(partitions)))
        if answer.error_code is not ErrorCode.NONE or not is_usable:
            self._errors[name] = answer.error_code or ErrorCode.LEADER_NOT_AVAILABLE
            if answer.error_code in _GONE and name in self._topics:
                self._unheard_of[name] = self._topics.pop(name)
            return
        self._errors.pop(name, None)
        unheard_of = self._unheard_of.pop(name, None)
        held = self._topics.get(name)
        if held is None and unheard_of is not None and answer.topic_id == unheard_of.topic_id is not None:
            held = unheard_of
        is_same = held is not None and (answer.topic_id is None or held.topic_id in {None, answer.topic_id})
        known = held.partitions if held is not None and is_same else ()
        self._topics[name] = TopicMetadata(
            name=name,
            topic_id=answer.topic_id,
            is_internal=answer.is_internal,
            partitions=tuple(
                _newer(known[partition.partition_index] if partition.partition_index < len(known) else None, partition)
                for partition in partitions
            ),
        )


_GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


def _newer(held: PartitionMetadata | None, answer: MetadataResponsePartition) -> PartitionMetadata:
    """The answer, unless it is from before the election we know of."""
    is_stale = held is not None and NO_LEADER_EPOCH < answer.leader_epoch < held.leader.leader_epoch
    if held is not None and is_stale:
        return held
    epoch = answer.leader_epoch
    if held is not None and epoch == NO_LEADER_EPOCH:
        epoch = held.leader.leader_epoch if answer.leader_id in {NO_LEADER, held.leader.broker_id} else epoch
    return PartitionMetadata(
        index=answer.partition_index,
        leader=Leader(answer.leader_id, epoch),
        replicas=answer.replica_nodes,
        isr=answer.isr_nodes,
        offline_replicas=answer.offline_replicas,
        code=answer.error_code,
    )

"""The cluster as the controller last decided it: immutable, replaced as a whole, read by everybody."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidelog.config import BrokerConfig, ConfigLayers, Listener, LogConfig
from tidelog.model import BrokerId, LeaderEpoch, TopicId, TopicPartition

BrokerEpoch: TypeAlias = int  # the transaction that registered a broker: another one with every start

NO_BROKER: Final = -1
ALL_BROKERS: Final = "<default>"  # the entity whose settings every broker takes over


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Leader and ISR of one partition, as its state node holds them."""

    topic_id: TopicId
    assignment: tuple[BrokerId, ...]
    leader: BrokerId  # NO_BROKER while nobody may lead
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int  # the version of the state node
    adding: tuple[BrokerId, ...] = ()  # of a running reassignment: replicas that are to stay once they are in sync
    removing: tuple[BrokerId, ...] = ()  # of a running reassignment: replicas that are to go then
    eligible: tuple[BrokerId, ...] = ()  # not in the ISR, and yet they know all that is committed (KIP-966)
    lost: tuple[BrokerId, ...] = ()  # knew all that is committed, and came back having forgotten some of it
    is_recovering: bool = False  # the leader was elected uncleanly and has not said yet that it has dealt with it

    @property
    def preferred_leader(self) -> BrokerId:
        """The replica that leads when all is well."""
        return self.assignment[0]

    @property
    def has_leader(self) -> bool:
        """Whether somebody leads."""
        return self.leader != NO_BROKER

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is running."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas once a running reassignment is complete."""
        return tuple(broker for broker in self.assignment if broker not in self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The replicas if a running reassignment is cancelled."""
        return tuple(broker for broker in self.assignment if broker not in self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionState]
    configs: Mapping[str, str] = field(default_factory=dict)  # the topic's own settings, without the broker's

    @property
    def replication_factor(self) -> int:
        """Replicas of its first partition."""
        return len(self.partitions[0].assignment)

    def with_states(self, states: Mapping[int, PartitionState]) -> TopicImage:
        """The topic with partitions added or replaced."""
        return dataclasses.replace(self, partitions={**self.partitions, **states})

    def log_config(self, broker: BrokerConfig) -> LogConfig:
        """How the topic's logs behave on this broker."""
        return LogConfig.from_properties(self.configs, broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A live broker."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    endpoints: Mapping[str, Listener]  # by listener name, as advertised
    rack: str | None = None
    is_intact: bool = True  # it registered with all that it knew before
    min_isr: int | None = None  # the min.insync.replicas it was started with, if it says


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Everything there is. `ClusterImage()` is the cluster nobody has seen yet."""

    cluster_id: str = ""
    controller_id: BrokerId = NO_BROKER
    controller_epoch: int = 0
    brokers: Mapping[BrokerId, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # altered settings, by broker id
    finished_deletions: frozenset[str] = frozenset()  # marked when this reign began; their logs may still lie about
    shutting_down: frozenset[BrokerId] = frozenset()  # live, but about to leave: they neither lead nor join an ISR
    offline: Mapping[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)  # replicas whose disk failed
    former_minimums: Mapping[str, int] = field(
        default_factory=dict
    )  # by topic: a leader may not have heard of the raise

    def layers_of(self, static: BrokerConfig) -> ConfigLayers:
        """The settings of the broker that was started with `static`, with what was altered since."""
        return ConfigLayers(
            static=static,
            own=self.broker_configs.get(str(static.broker_id), {}),
            shared=self.broker_configs.get(ALL_BROKERS, {}),
        )

    def state_of(self, partition: TopicPartition) -> PartitionState | None:
        """A partition's state, if there is such a partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.index)

    def with_topics(self, topics: Iterable[TopicImage]) -> ClusterImage:
        """The image with topics added or replaced."""
        return dataclasses.replace(self, topics={**self.topics, **{topic.name: topic for topic in topics}})

    def without_topics(self, names: Iterable[str]) -> ClusterImage:
        """The image without these topics."""
        gone = frozenset(names)
        return dataclasses.replace(
            self, topics={name: topic for name, topic in self.topics.items() if name not in gone}
        )

    def with_broker_configs(self, entity: str, configs: Mapping[str, str]) -> ClusterImage:
        """The image with the altered settings of a broker, or of ALL_BROKERS, replaced."""
        return dataclasses.replace(self, broker_configs={**self.broker_configs, entity: configs})


def partitions_of(image: ClusterImage, broker_id: BrokerId) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """The partitions of which a broker has a replica, in the order of the image."""
    for name, topic in image.topics.items():
        for index, state in topic.partitions.items():
            if broker_id in state.assignment:
                yield TopicPartition(name, index), state

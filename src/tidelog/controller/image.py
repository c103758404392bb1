"""The cluster as the controller last decided it: immutable, replaced as a whole, read by everybody."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.config import BrokerConfig, ConfigLayers, Listener, LogConfig
from tidelog.model import BrokerId, LeaderEpoch, TopicId

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

    @property
    def preferred_leader(self) -> BrokerId:
        """The replica that leads when all is well."""
        return self.assignment[0]

    @property
    def has_leader(self) -> bool:
        """Whether somebody leads."""
        return self.leader != NO_BROKER


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

    def log_config(self, broker: BrokerConfig) -> LogConfig:
        """How the topic's logs behave on this broker."""
        return LogConfig.from_properties(self.configs, broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A live broker."""

    broker_id: BrokerId
    broker_epoch: int
    endpoints: Mapping[str, Listener]  # by listener name, as advertised
    rack: str | None = None


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

    def layers_of(self, static: BrokerConfig) -> ConfigLayers:
        """The settings of the broker that was started with `static`, with what was altered since."""
        return ConfigLayers(
            static=static,
            own=self.broker_configs.get(str(static.broker_id), {}),
            shared=self.broker_configs.get(ALL_BROKERS, {}),
        )

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

"""What an admin asks for and is told, as values."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.model import (
    BrokerEndpoint,
    BrokerId,
    ErrorCode,
    LeaderEpoch,
    Offset,
    ProducerId,
    TimestampMs,
    TopicId,
    TopicPartition,
)

TO_HIGH_WATERMARK: Final = -1  # delete all records that can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default, `assignment` says which brokers hold which partition instead."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that shall have `total_count` partitions; `assignments` says which brokers hold each of the new ones."""

    name: str
    total_count: int
    assignments: Sequence[Sequence[BrokerId]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """What became of one topic."""

    name: str
    code: ErrorCode
    message: str | None = None
    topic_id: TopicId | None = None

    @property
    def is_ok(self) -> bool:
        """Whether it was done."""
        return self.code is ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """Who is there."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: tuple[BrokerEndpoint, ...]


class ElectionKind(enum.IntEnum):
    """Who may be elected."""

    PREFERRED = 0  # the first of the assignment, if it is in sync
    UNCLEAN = 1  # anybody alive, where nobody in sync is: records may be lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What became of one partition."""

    code: ErrorCode
    message: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether it was done."""
        return self.code is ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on the move: all replicas it has meanwhile, and those of them that come and go."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class RemoteReplica(NamedTuple):
    """What a leader knows of a follower; -1 where it does not know since when it had everything."""

    broker_id: BrokerId
    log_end_offset: Offset
    last_caught_up_ms: TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """One replica as its broker tells of it. What a leader knows of its followers only a leader tells."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    code: ErrorCode
    is_leader: bool
    leader_id: BrokerId
    leader_epoch: LeaderEpoch  # of its role
    last_epoch: LeaderEpoch  # the newest that its log knows
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    isr: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]
    remotes: tuple[RemoteReplica, ...]

    @property
    def is_ok(self) -> bool:
        """Whether the replica can be told of."""
        return self.code is ErrorCode.NONE


class ResourceKind(enum.IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    """A topic by name, or a broker by id; the broker without a name stands for all of them."""

    kind: ResourceKind
    name: str

    @property
    def broker_id(self) -> BrokerId | None:
        """The broker that must be asked; None where any can be."""
        return int(self.name) if self.kind is ResourceKind.BROKER and self.name else None


class ConfigOperation(enum.IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One setting to change; only a deletion needs no value."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class ConfigSynonym(NamedTuple):
    """A place a value can come from: 1 topic, 2 broker, 3 all brokers, 4 the broker's start, 5 default."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting as it holds."""

    name: str
    value: str | None  # None where it is a secret
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    value_type: int = 0
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceResult:
    """What became of one resource, or what its settings are."""

    resource: ConfigResource
    code: ErrorCode
    message: str | None = None
    configs: Mapping[str, ConfigEntry] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether it was done."""
        return self.code is ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """One log directory of a broker; sizes of its file system are -1 where the broker does not tell them."""

    path: str
    code: ErrorCode
    sizes: Mapping[TopicPartition, int]  # bytes of each log
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """One producer as a partition remembers it; -1 as the transaction's start means that none is open."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: TimestampMs
    coordinator_epoch: int
    transaction_first_offset: Offset

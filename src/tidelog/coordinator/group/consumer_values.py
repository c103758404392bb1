"""What the records of a consumer group (KIP-848) say. The fields are those of Kafka's schemas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tidelog.model import TimestampMs, TopicId


class MemberKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class RegularExpressionKey(NamedTuple):
    """An expression that members of a group subscribe to."""

    group_id: str
    regular_expression: str


class TopicPartitions(NamedTuple):
    """Some partitions of a topic."""

    topic_id: TopicId
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """The group epoch, and a hash over the topics that it was computed from; 0 if nobody knows."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """The racks of a partition, as Kafka before 4.1 wrote them."""

    partition: int
    racks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic, as Kafka before 4.1 wrote it."""

    topic_id: TopicId
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """The topics a group was assigned from. Since 4.1 a hash in the group's own record says it; this one is only deleted."""

    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """An assignor of a classic member, with its subscription."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is kept of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]

    def without_repetitions(self) -> ClassicMemberMetadata:
        """The same, with each protocol once, as it was named first: whoever counts protocols counts members by them."""
        by_name = {protocol.name: protocol for protocol in reversed(self.supported_protocols)}
        if len(by_name) == len(self.supported_protocols):
            return self
        names = dict.fromkeys(protocol.name for protocol in self.supported_protocols)
        return replace(self, supported_protocols=tuple(by_name[name] for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """A member and what it subscribes to."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member shall have."""

    topic_partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member has, and what it has yet to give up."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """The topics that an expression matched, in which version of the cluster's metadata, and when."""

    topics: tuple[str, ...]
    version: int
    timestamp: TimestampMs

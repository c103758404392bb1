"""DescribeReplicas: how the replicas of one broker stand, as only the broker that has them can tell. Ours, not Kafka's."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int32, Int64


@message
class RemoteReplica:
    """What a leader knows of one follower: how far it has fetched, and when it last had everything (-1 if it never had)."""

    broker_id: Int32
    log_end_offset: Int64
    last_caught_up_ms: Int64


@message
class ReplicaOfPartition:
    """One replica. `leader_epoch` is that of its role, `last_epoch` the newest that its log has records or a start of."""

    partition_index: Int32
    error_code: ErrorCode
    is_leader: bool = False
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    last_epoch: Int32 = -1
    log_start_offset: Int64 = -1
    log_end_offset: Int64 = -1
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    isr: tuple[Int32, ...] = ()
    assignment: tuple[Int32, ...] = ()
    remotes: tuple[RemoteReplica, ...] = ()


@message
class ReplicasOfTopic:
    """The replicas of one topic on this broker."""

    topic: str
    topic_id: UUID | None
    partitions: tuple[ReplicaOfPartition, ...]


@message
class DescribeReplicasResponse(Response):
    """The replicas of the broker that answers, under the epoch of its registration."""

    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    broker_id: Int32
    broker_epoch: Int64
    topics: tuple[ReplicasOfTopic, ...]


@message
class ReplicasWanted:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[Int32, ...]


@message
class DescribeReplicasRequest(Request[DescribeReplicasResponse]):
    """The partitions to tell of; null for all that the broker has."""

    topics: tuple[ReplicasWanted, ...] | None


API = Api(
    key=ApiKey.DESCRIBE_REPLICAS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=DescribeReplicasRequest,
    response=DescribeReplicasResponse,
    changes={},
    is_private=True,
    declares_itself=True,
)

"""AlterPartitionReassignments: move partitions to other brokers, or stop moving them (KIP-455)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class ReassignablePartitionResponse:
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None


@message
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse(Response):
    """One result per partition, unless the whole request was refused."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: ErrorCode
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


@message
class ReassignablePartition:
    """The brokers that shall have the partition, its preferred leader first; null ends a move that is under way."""

    partition_index: int
    replicas: tuple[int, ...] | None = None


@message
class ReassignableTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Partitions to move."""

    timeout_ms: int = 60_000
    allow_replication_factor_change: bool = needed(default=True)
    topics: tuple[ReassignableTopic, ...]


API = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    served=VersionRange(0, 1),
    flexible_from=0,
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    changes={1: "may refuse to change the number of replicas (KIP-860)"},
)

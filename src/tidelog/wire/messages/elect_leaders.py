"""ElectLeaders: give leadership back to preferred leaders, or to a replica that may have lost records."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class PartitionResult:
    """What became of one partition."""

    partition_id: int
    error_code: ErrorCode
    error_message: str | None = None


@message
class ReplicaElectionResult:
    """The partitions of one topic."""

    topic: str
    partition_result: tuple[PartitionResult, ...]


@message
class ElectLeadersResponse(Response):
    """One result per partition asked for; where all were asked for, only those that changed or failed."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    replica_election_results: tuple[ReplicaElectionResult, ...]


@message
class TopicPartitions:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[int, ...] = ()


@message
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Partitions, or null for all. Election type 0 is preferred, 1 unclean; version 0 knows only the first."""

    election_type: int = needed(0)
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: int = 60_000


API = Api(
    key=ApiKey.ELECT_LEADERS,
    served=VersionRange(0, 2),
    flexible_from=2,
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    changes={
        1: "election type, error code (KIP-460)",
        2: "flexible (KIP-482)",
    },
)

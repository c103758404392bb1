"""CreatePartitions: more partitions for topics that exist."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str
    error_code: ErrorCode
    error_message: str | None = None


@message
class CreatePartitionsResponse(Response):
    """One result per topic asked for."""

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...]


@message
class CreatePartitionsAssignment:
    """The brokers of one new partition, its preferred leader first."""

    broker_ids: tuple[int, ...] = ()


@message
class CreatePartitionsTopic:
    """`count` is what the topic shall have in all; null assignments leave the placement to the broker."""

    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


@message
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Topics to grow, or only to check."""

    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


API = Api(
    key=ApiKey.CREATE_PARTITIONS,
    served=VersionRange(0, 3),
    flexible_from=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "flexible (KIP-482)",
        3: "THROTTLING_QUOTA_EXCEEDED (KIP-599)",
    },
)

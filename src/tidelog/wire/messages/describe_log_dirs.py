"""DescribeLogDirs: the log directories of one broker and what lies in them."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class DescribeLogDirsPartition:
    """One log; its lag is what it lacks to the high watermark."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


@message
class DescribeLogDirsTopic:
    """The logs of one topic."""

    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


@message
class DescribeLogDirsResult:
    """One directory; sizes are those of its file system, -1 where unknown."""

    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


@message
class DescribeLogDirsResponse(Response):
    """One result per directory."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[DescribeLogDirsResult, ...]


@message
class DescribableLogDirTopic:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[int, ...] = ()


@message
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """Partitions to look for; null asks for all."""

    topics: tuple[DescribableLogDirTopic, ...] | None = None


API = Api(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    served=VersionRange(1, 5),
    flexible_from=2,
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "flexible (KIP-482)",
        3: "top-level error (KIP-784)",
        4: "total and usable bytes (KIP-827)",
        5: "cordoned directories (KIP-1066)",
    },
)

"""DeleteRecords: let the beginning of partitions be forgotten."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class DeleteRecordsPartitionResult:
    """Where the partition begins now, on all its replicas; -1 with an error."""

    partition_index: int
    low_watermark: int = -1
    error_code: ErrorCode


@message
class DeleteRecordsTopicResult:
    """The partitions of one topic."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message
class DeleteRecordsResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...]


@message
class DeleteRecordsPartition:
    """Records below `offset` go; -1 stands for the high watermark."""

    partition_index: int
    offset: int


@message
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@message
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Partitions, which the broker asked must lead."""

    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int = 60_000


API = Api(
    key=ApiKey.DELETE_RECORDS,
    served=VersionRange(0, 2),
    flexible_from=2,
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    changes={1: "throttled after the response is sent (KIP-219)", 2: "flexible (KIP-482)"},
)

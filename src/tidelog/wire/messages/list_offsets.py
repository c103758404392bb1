"""ListOffsets: the offset of a point in time, or of the start or end of a log."""

from __future__ import annotations

from typing import Final

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


@message
class ListOffsetsPartitionResponse:
    """The record found, or -1 where there is none."""

    partition_index: int
    error_code: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@message
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message
class ListOffsetsResponse(Response):
    """One answer per partition of the request."""

    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...]


@message
class ListOffsetsPartition:
    """A time in milliseconds, or one of the negative constants above."""

    partition_index: int
    current_leader_epoch: int = -1
    timestamp: int


@message
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@message
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Replica id -1 is a consumer; -2 is a debugging tool, which may look past the high watermark."""

    replica_id: int
    isolation_level: int = needed(0)
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: int = 0


API = Api(
    key=ApiKey.LIST_OFFSETS,
    served=VersionRange(1, 11),
    flexible_from=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    changes={
        1: "one offset per partition, with its timestamp (KIP-79)",
        2: "isolation level (KIP-98), throttle time (KIP-124)",
        3: "throttled after the response is sent (KIP-219)",
        4: "leader epochs (KIP-320)",
        5: "OFFSET_NOT_AVAILABLE (KIP-207)",
        6: "flexible (KIP-482)",
        7: "max timestamp, -3 (KIP-734)",
        8: "earliest local offset, -4 (KIP-405)",
        9: "latest tiered offset, -5 (KIP-1005)",
        10: "timeout (KIP-1075)",
        11: "earliest offset pending upload, -6 (KIP-1023)",
    },
)

"""OffsetDelete: forget how far a group has read."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class OffsetDeleteResponsePartition:
    """What became of one partition's offset."""

    partition_index: int
    error_code: ErrorCode


@message
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message
class OffsetDeleteResponse(Response):
    """An error of the group as a whole, or one result per partition asked for."""

    error_code: ErrorCode
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


@message
class OffsetDeleteRequestPartition:
    """A partition whose offset is to be forgotten."""

    partition_index: int


@message
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Offsets of one group, which may not be subscribed to their topics."""

    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


API = Api(
    key=ApiKey.OFFSET_DELETE,
    served=VersionRange(0, 0),
    flexible_from=None,
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    changes={},
)

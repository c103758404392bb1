"""OffsetFetch: how far groups have read."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class OffsetFetchResponsePartitions:
    """What was committed for one partition; offset and epoch are -1 where nothing was."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    metadata: str | None
    error_code: ErrorCode


@message
class OffsetFetchResponseTopics:
    """The partitions of one topic, which is named as the request named it."""

    name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@message
class OffsetFetchResponseGroup:
    """The offsets of one group, or why there are none."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.NONE


@message
class OffsetFetchResponse(Response):
    """One group up to version 7, in the fields of its own (version 1 has no error); from version 8 one entry per group."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[OffsetFetchResponseGroup, ...] = ()


@message
class OffsetFetchRequestTopics:
    """Partitions of one topic: by name up to version 9, by id in version 10. The coordinator is given names always."""

    name: str = needed("")
    topic_id: UUID | None = needed(None)
    partition_indexes: tuple[int, ...] = ()


@message
class OffsetFetchRequestGroup:
    """One group; null asks for all that it committed. A member of the consumer protocol says who it is (from version 9)."""

    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@message
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """One group up to version 7, in the fields of its own; from version 8 any number. The coordinator is given `groups` always."""

    group_id: str = needed("")
    topics: tuple[OffsetFetchRequestTopics, ...] | None = needed(())
    groups: tuple[OffsetFetchRequestGroup, ...] = needed(())
    require_stable: bool = needed(False)


API = Api(
    key=ApiKey.OFFSET_FETCH,
    served=VersionRange(1, 10),
    flexible_from=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    changes={
        1: "offsets are kept by the cluster",
        2: "null asks for all topics; top-level error code",
        3: "throttle time (KIP-124)",
        4: "throttled after the response is sent (KIP-219)",
        5: "leader epoch (KIP-320)",
        6: "flexible (KIP-482)",
        7: "offsets of open transactions may be waited for (KIP-447)",
        8: "several groups (KIP-709)",
        9: "member epochs (KIP-848)",
        10: "topic ids (KIP-848)",
    },
)

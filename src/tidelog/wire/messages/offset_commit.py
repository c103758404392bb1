"""OffsetCommit: remember how far a group has read."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class OffsetCommitResponsePartition:
    """What became of one partition's offset."""

    partition_index: int
    error_code: ErrorCode


@message
class OffsetCommitResponseTopic:
    """The partitions of one topic, which is named as the request named it."""

    name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


@message
class OffsetCommitResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...]


@message
class OffsetCommitRequestPartition:
    """The next offset to read, the leader epoch of the record before it, and a note of the client."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


@message
class OffsetCommitRequestTopic:
    """The partitions of one topic: by name up to version 9, by id from version 10. The coordinator is given names always."""

    name: str = needed("")
    topic_id: UUID | None = needed(None)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@message
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Offsets of a member, or of nobody in particular: then the generation is -1 and the member id empty."""

    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str
    group_instance_id: str | None = needed(None)
    retention_time_ms: int = -1
    topics: tuple[OffsetCommitRequestTopic, ...]


API = Api(
    key=ApiKey.OFFSET_COMMIT,
    served=VersionRange(2, 10),
    flexible_from=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    changes={
        2: "retention time",
        3: "throttle time (KIP-124)",
        4: "throttled after the response is sent (KIP-219)",
        5: "no retention time (KIP-211)",
        6: "leader epoch (KIP-320)",
        7: "static members (KIP-345)",
        8: "flexible (KIP-482)",
        9: "member epochs, STALE_MEMBER_EPOCH (KIP-848)",
        10: "topic ids (KIP-848)",
    },
)

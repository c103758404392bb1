"""OffsetForLeaderEpoch: where the records of a leader epoch end, by which readers notice that a log was cut."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class EpochEndOffset:
    """The largest known epoch up to the one asked for, and its exclusive end; both -1 where that cannot be said."""

    error_code: ErrorCode
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


@message
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


@message
class OffsetForLeaderEpochResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]


@message
class OffsetForLeaderPartition:
    """The epoch asked for, and the epoch its reader believes to be the current one."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


@message
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@message
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """Partitions; the replica is -1 for a consumer, and -2 before version 3, which does not tell."""

    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...]


API = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    served=VersionRange(2, 4),
    flexible_from=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    changes={
        2: "current leader epoch, throttle time (KIP-320)",
        3: "replica id (KIP-392)",
        4: "flexible (KIP-482)",
    },
)

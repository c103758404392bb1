"""TxnOffsetCommit: offsets of a group that count when a transaction commits."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class TxnOffsetCommitResponsePartition:
    """What became of one partition's offset."""

    partition_index: int
    error_code: ErrorCode


@message
class TxnOffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message
class TxnOffsetCommitResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


@message
class TxnOffsetCommitRequestPartition:
    """The next offset to read, the leader epoch of the record before it, and a note of the client."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


@message
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Offsets in a transaction; from version 3 with the member that has consumed them, so that one that is late is refused (KIP-447)."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int = needed(-1)
    member_id: str = needed("")
    group_instance_id: str | None = needed(None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


API = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    served=VersionRange(0, 5),
    flexible_from=3,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "leader epoch (KIP-320)",
        3: "flexible; member, generation, instance id (KIP-447)",
        4: "TRANSACTION_ABORTABLE (KIP-890)",
        5: "adds the group to the transaction (KIP-890)",
    },
)

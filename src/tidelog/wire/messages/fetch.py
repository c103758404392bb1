"""Fetch: read record batches of partitions, as a consumer or as a follower. Read and written by hand in `wire.hot`."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.primitives import Buffer

FULL_RESPONSE_BYTES: Final = 0x7FFFFFFF
HIGH_WATERMARK_NOT_TOLD: Final = 0x7FFFFFFFFFFFFFFF


@message
class EpochEndOffset:
    """Where the follower's log parts from the leader's; -1 if it does not."""

    epoch: int = -1
    end_offset: int = -1


@message
class LeaderIdAndEpoch:
    """Who leads the partition now, as a hint beside an error; -1 if unknown."""

    leader_id: int = -1
    leader_epoch: int = -1


@message
class SnapshotId:
    """A KRaft snapshot; a broker of ours never sends one."""

    end_offset: int = -1
    epoch: int = -1


# One object each, so that a codec sees by identity that there is nothing to tell.
NO_DIVERGENCE: Final = EpochEndOffset()
NO_LEADER_HINT: Final = LeaderIdAndEpoch()
NO_SNAPSHOT: Final = SnapshotId()


@message
class AbortedTransaction:
    """Records of this producer from this offset on are to be skipped up to the abort marker."""

    producer_id: int
    first_offset: int


@message
class PartitionData:
    """What one partition had to give. Aborted transactions are null unless a read_committed consumer asked."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = NO_DIVERGENCE
    current_leader: LeaderIdAndEpoch = NO_LEADER_HINT
    snapshot_id: SnapshotId = NO_SNAPSHOT
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: int = -1
    records: Buffer | None


@message
class FetchableTopicResponse:
    """A topic by name up to version 12, by id from version 13."""

    topic: str = ""
    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...]


@message
class NodeEndpoint:
    """Where a leader named in a hint is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class FetchResponse(Response):
    """Partitions with something to tell; session 0 means that the broker keeps none."""

    throttle_time_ms: int
    error_code: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = ()


@message
class ReplicaState:
    """The follower that fetches, and the epoch of its registration; -1 for a consumer."""

    replica_id: int = -1
    replica_epoch: int = -1


NO_REPLICA: Final = ReplicaState()


@message
class FetchPartition:
    """Where to read in one partition; the fields with a default are a follower's, or a careful consumer's."""

    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = HIGH_WATERMARK_NOT_TOLD


@message
class FetchTopic:
    """A topic by name up to version 12, by id from version 13."""

    topic: str = ""
    topic_id: UUID | None = None
    partitions: tuple[FetchPartition, ...]


@message
class ForgottenTopic:
    """Partitions to drop from the session; the topic by name up to version 12, by id from version 13."""

    topic: str = ""
    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()


@message
class FetchRequest(Request[FetchResponse]):
    """Partitions to read, or within a session only those that changed."""

    cluster_id: str | None = None
    replica_id: int = -1  # up to version 14
    replica_state: ReplicaState = NO_REPLICA  # from version 15
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = FULL_RESPONSE_BYTES
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""

    @property
    def follower_id(self) -> int:
        """The broker that fetches as a follower, wherever the version put it; -1 for a consumer."""
        return self.replica_id if self.replica_id != -1 else self.replica_state.replica_id


API = Api(
    key=ApiKey.FETCH,
    served=VersionRange(4, 18),
    flexible_from=12,
    request=FetchRequest,
    response=FetchResponse,
    changes={
        4: "isolation level, last stable offset, aborted transactions (KIP-98)",
        5: "log start offset (KIP-107)",
        6: "KAFKA_STORAGE_ERROR (KIP-112)",
        7: "fetch sessions (KIP-227)",
        8: "throttled after the response is sent (KIP-219)",
        9: "current leader epoch (KIP-320)",
        10: "zstd (KIP-110)",
        11: "rack and preferred read replica (KIP-392)",
        12: "flexible (KIP-482); last fetched epoch and diverging epoch (KIP-595)",
        13: "topic ids (KIP-516)",
        14: "OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)",
        15: "replica state replaces replica id (KIP-903)",
        16: "endpoints of current leaders beside an error (KIP-951)",
        17: "replica directory id (KIP-853)",
        18: "a follower tells its high watermark (KIP-1166)",
    },
)

"""Produce: append record batches to partitions. Read and written by hand in `wire.hot`."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.primitives import Buffer


@message
class BatchIndexAndErrorMessage:
    """Why the record at this position of its batch was refused."""

    batch_index: int
    batch_index_error_message: str | None = None


@message
class LeaderIdAndEpoch:
    """Who leads the partition now, as a hint beside an error; -1 if unknown."""

    leader_id: int = -1
    leader_epoch: int = -1


NO_LEADER_HINT: Final = LeaderIdAndEpoch()  # one object, so that a codec sees by identity that there is no hint


@message
class PartitionProduceResponse:
    """Where a batch went, or why it did not. The append time is -1 unless the broker set the timestamps."""

    index: int
    error_code: ErrorCode
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = NO_LEADER_HINT


@message
class TopicProduceResponse:
    """A topic by name up to version 12, by id from version 13."""

    name: str = ""
    topic_id: UUID | None = None
    partition_responses: tuple[PartitionProduceResponse, ...]


@message
class NodeEndpoint:
    """Where a leader named in a hint is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class ProduceResponse(Response):
    """One answer per partition of the request; never sent for acks=0."""

    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


@message
class PartitionProduceData:
    """Records for one partition: a slice of the frame they came in, not a copy."""

    index: int
    records: Buffer | None


@message
class TopicProduceData:
    """A topic by name up to version 12, by id from version 13."""

    name: str = ""
    topic_id: UUID | None = None
    partition_data: tuple[PartitionProduceData, ...]


@message
class ProduceRequest(Request[ProduceResponse]):
    """Record batches, and how many replicas must have them before the answer."""

    transactional_id: str | None = None
    acks: int
    timeout_ms: int
    topic_data: tuple[TopicProduceData, ...]


API = Api(
    key=ApiKey.PRODUCE,
    served=VersionRange(3, 13),
    # librdkafka concludes from the low versions which compression a broker knows, and else sends uncompressed (KAFKA-18659).
    advertised_low=0,
    flexible_from=9,
    request=ProduceRequest,
    response=ProduceResponse,
    changes={
        3: "transactional id, record batches of magic 2 (KIP-98)",
        4: "KAFKA_STORAGE_ERROR (KIP-112)",
        5: "log start offset (KIP-107)",
        6: "throttled after the response is sent (KIP-219)",
        7: "zstd (KIP-110)",
        8: "record errors and an error message (KIP-467)",
        9: "flexible (KIP-482)",
        10: "current leader and its endpoint beside an error (KIP-951)",
        11: "TRANSACTION_ABORTABLE (KIP-890)",
        12: "adds partitions to the transaction implicitly (KIP-890)",
        13: "topic ids (KIP-516)",
    },
)

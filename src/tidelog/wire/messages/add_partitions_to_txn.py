"""AddPartitionsToTxn: partitions that a transaction is about to write to; or, among brokers, whether it writes there (KIP-890)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


@message
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: int
    partition_error_code: ErrorCode


@message
class AddPartitionsToTxnTopicResult:
    """What became of the partitions of one topic."""

    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@message
class AddPartitionsToTxnResult:
    """What became of the partitions of one transaction."""

    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@message
class AddPartitionsToTxnResponse(Response):
    """One result per partition: of the one transaction up to version 3, of each from version 4."""

    throttle_time_ms: int = 0
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()


@message
class AddPartitionsToTxnTransaction:
    """One transaction of a batched request; `verify_only` asks whether the partitions are part of it, and adds none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@message
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """One transaction up to version 3, which is what clients send; any number from version 4, which brokers send."""

    v3_and_below_transactional_id: str = needed("")
    v3_and_below_producer_id: int = needed(0)
    v3_and_below_producer_epoch: int = needed(0)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = needed(())
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = needed(())


API = Api(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    served=VersionRange(0, 5),
    flexible_from=3,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "PRODUCER_FENCED (KIP-588)",
        3: "flexible (KIP-482)",
        4: "several transactions, and verification (KIP-890)",
        5: "TRANSACTION_ABORTABLE (KIP-890)",
    },
)

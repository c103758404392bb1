"""DescribeTransactions: how transactional ids stand, as only their coordinator can tell (KIP-664)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class TopicData:
    """Partitions of one topic that are part of the transaction."""

    topic: str
    partitions: tuple[int, ...]


@message
class TransactionState:
    """One transactional id; the start time is -1 without an open transaction."""

    error_code: ErrorCode
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    topics: tuple[TopicData, ...] = ()


@message
class DescribeTransactionsResponse(Response):
    """One state per id asked for."""

    throttle_time_ms: int = 0
    transaction_states: tuple[TransactionState, ...]


@message
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Ids, which the broker asked must coordinate."""

    transactional_ids: tuple[str, ...]


API = Api(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    changes={0: "states of transactional ids (KIP-664)"},
)

"""ListTransactions: the transactional ids that a broker coordinates (KIP-664)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class TransactionState:
    """One transactional id."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse(Response):
    """All that pass the filters; names of states that nobody knows are given back."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


@message
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Filters: what is empty, negative or null lets everything pass. The duration is that of the open transaction."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = needed(-1)
    transactional_id_pattern: str | None = needed(None)


API = Api(
    key=ApiKey.LIST_TRANSACTIONS,
    served=VersionRange(0, 2),
    flexible_from=0,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    changes={
        0: "ids by state and producer (KIP-664)",
        1: "by duration (KIP-994)",
        2: "by pattern (KIP-1152)",
    },
)

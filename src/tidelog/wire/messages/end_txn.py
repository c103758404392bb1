"""EndTxn: commit or abort the open transaction of a producer."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class EndTxnResponse(Response):
    """From version 5: under which id and epoch the next transaction is written."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


@message
class EndTxnRequest(Request[EndTxnResponse]):
    """The transaction, and what to do with it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


API = Api(
    key=ApiKey.END_TXN,
    served=VersionRange(0, 5),
    flexible_from=3,
    request=EndTxnRequest,
    response=EndTxnResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "PRODUCER_FENCED (KIP-588)",
        3: "flexible (KIP-482)",
        4: "TRANSACTION_ABORTABLE (KIP-890)",
        5: "an epoch per transaction (KIP-890)",
    },
)

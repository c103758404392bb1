"""AddOffsetsToTxn: a group whose offsets a transaction is about to commit."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class AddOffsetsToTxnResponse(Response):
    """Whether the partition that holds the group's offsets is part of the transaction now."""

    throttle_time_ms: int = 0
    error_code: ErrorCode


@message
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """The transaction and the group."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


API = Api(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    served=VersionRange(0, 4),
    flexible_from=3,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "PRODUCER_FENCED (KIP-588)",
        3: "flexible (KIP-482)",
        4: "TRANSACTION_ABORTABLE (KIP-890)",
    },
)

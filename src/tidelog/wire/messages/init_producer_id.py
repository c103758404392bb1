"""InitProducerId: an identity for an idempotent or transactional producer."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class InitProducerIdResponse(Response):
    """The identity, or -1 and an error."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    producer_id: int = -1
    producer_epoch: int
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


@message
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """A null transactional id asks for idempotence only. An identity already held asks for its next epoch.

    Who takes part in a two-phase commit (KIP-939) has transactions that do not time out, and may keep the one that was prepared.
    """

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = needed(-1)
    producer_epoch: int = needed(-1)
    enable2_pc: bool = needed(default=False)
    keep_prepared_txn: bool = needed(default=False)


API = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    served=VersionRange(0, 6),
    flexible_from=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "flexible (KIP-482)",
        3: "the producer's present id and epoch (KIP-360)",
        4: "PRODUCER_FENCED (KIP-588)",
        5: "TRANSACTION_ABORTABLE (KIP-890)",
        6: "two-phase commit (KIP-939)",
    },
)

"""InitProducerId, versions 0 to 5, for producers without a transactional id.

Behaviour: any broker hands out a fresh producer id with epoch 0; ids come from blocks of the registry and are unique in the cluster for
ever. A transactional id needs a transaction coordinator, which this broker does not have.

v1: throttling moves to the client (KIP-219).  v2: flexible.  v3: current id and epoch, to bump the epoch (KIP-360).  v4: PRODUCER_FENCED.
v5: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = ApiKey.INIT_PRODUCER_ID


def handle(
    node: Node, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Check the request and hand out an id."""
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _fresh(node)


async def _fresh(node: Node) -> InitProducerIdResponse:
    try:
        producer_id = await node.producer_ids.next()
    except ApiError as error:
        return _refused(error.code)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)

"""InitProducerId, versions 0 to 6.

Behaviour: without a transactional id, a producer id that nobody else has, with epoch 0. With one, its coordinator fences whoever had the id
before and answers with the next epoch; while a transaction of the former owner is being ended it says CONCURRENT_TRANSACTIONS. The empty
transactional id is INVALID_REQUEST, and so is a producer id without its epoch.

v1: throttling moves to the client (KIP-219).  v2: flexible.  v3: current id and epoch, to bump the epoch (KIP-360).  v4: PRODUCER_FENCED.
v5: TRANSACTION_ABORTABLE (KIP-890).  v6: two-phase commit (KIP-939).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.handlers.group_requests import settled
from tidelog.broker.handlers.transaction_requests import ask_with_ids, in_version
from tidelog.broker.node import Node
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = ApiKey.INIT_PRODUCER_ID

_FENCED_SINCE: Final = 4


async def handle(node: Node, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Check the request and hand out an id."""
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        if request.transactional_id is None:
            return await _fresh(node)
        answer = await settled(ask_with_ids(node, request.transactional_id, request, context))
    except ApiError as error:
        return _refused(error.code)
    return replace(answer, error_code=in_version(answer.error_code, context.version, fenced_since=_FENCED_SINCE))


async def _fresh(node: Node) -> InitProducerIdResponse:
    producer_id = await node.producer_ids.next()
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)

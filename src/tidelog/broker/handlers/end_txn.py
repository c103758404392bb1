"""EndTxn, versions 0 to 5.

Behaviour: the coordinator decides about the open transaction of a producer and answers as soon as the decision cannot be lost; the markers
follow. From version 5 on the answer names the id and the epoch of the next transaction, and an earlier epoch has no say any more. The empty
transactional id is INVALID_REQUEST.

v1: throttling moves to the client (KIP-219).  v2: PRODUCER_FENCED (KIP-588).  v3: flexible.  v4: TRANSACTION_ABORTABLE (KIP-890).
v5: an epoch per transaction (KIP-890).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.handlers.transaction_requests import ask_with_ids, in_version
from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

API = ApiKey.END_TXN

_FENCED_SINCE: Final = 2


async def handle(node: Node, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Ask the coordinator."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    try:
        answer = await ask_with_ids(node, request.transactional_id, request, context)
    except ApiError as error:
        return EndTxnResponse(error_code=error.code)
    return replace(answer, error_code=in_version(answer.error_code, context.version, fenced_since=_FENCED_SINCE))

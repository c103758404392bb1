"""EndTxn, versions 0 to 5.

Behaviour: the coordinator decides about the open transaction of a producer and answers as soon as the decision cannot be lost; the markers
follow. From version 5 on the answer names the id and the epoch of the next transaction, and an earlier epoch has no say any more. The empty
transactional id is INVALID_REQUEST.

v1: throttling moves to the client (KIP-219).  v2: PRODUCER_FENCED (KIP-588).  v3: flexible.  v4: TRANSACTION_ABORTABLE (KIP-890).
v5: an epoch per transaction (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
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


def handle(node: Node, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Ask the coordinator. What it says at once is answered at once: a producer waits for every commit."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    answer = ask_with_ids(node, request.transactional_id, request, context)
    return _in_version(answer, context.version) if isinstance(answer, EndTxnResponse) else _later(answer, context)


async def _later(answer: Awaitable[EndTxnResponse], context: RequestContext) -> EndTxnResponse:
    try:
        return _in_version(await answer, context.version)
    except ApiError as error:
        return EndTxnResponse(error_code=error.code)


def _in_version(answer: EndTxnResponse, version: int) -> EndTxnResponse:
    code = in_version(answer.error_code, version, fenced_since=_FENCED_SINCE)
    return answer if code is answer.error_code else replace(answer, error_code=code)

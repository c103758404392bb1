"""What the handlers of transactional requests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TypeVar

from tidelog.broker.handlers.group_requests import PARTITIONS_PER_SLICE, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.definition import Request, Response
from tidelog.wire.messages.end_txn import EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", InitProducerIdResponse, EndTxnResponse)


def in_version(code: ErrorCode, version: int, *, fenced_since: int) -> ErrorCode:
    """The code as a client of this version knows it: PRODUCER_FENCED came late, and says what INVALID_PRODUCER_EPOCH said before."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def ask_with_ids(
    node: Node, transactional_id: str, request: Request[ResponseT], context: RequestContext
) -> ResponseT | Awaitable[ResponseT]:
    """The coordinator's answer to a request that may need a new producer id, at once where there is one.

    Few need one, so the registry, which may be away, is only waited for where the answer was that there is none at hand. That wait raises
    ApiError where none can be had.
    """
    is_stocked = node.producer_ids.is_stocked
    answer = node.transactions.ask(transactional_id, request, context)
    if is_stocked or (isinstance(answer, Response) and answer.error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        return answer
    return _asked_again(node, transactional_id, request, context, answer)


async def _asked_again(
    node: Node,
    transactional_id: str,
    request: Request[ResponseT],
    context: RequestContext,
    first: ResponseT | Awaitable[ResponseT],
) -> ResponseT:
    answer = await settled(first)
    if answer.error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return answer
    await node.producer_ids.ensure()
    return await settled(node.transactions.ask(transactional_id, request, context))


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """All of them, with a look at the world now and then: a request may name very many partitions."""
    for number, item in enumerate(items, 1):
        yield item
        if number % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)

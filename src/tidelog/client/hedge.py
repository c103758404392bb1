"""Asking several who know the same, without waiting long for one that keeps silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost

T = TypeVar("T")


async def first_answer(asks: Iterable[Callable[[], Awaitable[T]]], *, patience_ms: float) -> T:
    """The first answer; the next is asked when one fails, or has kept silent for so long. Raises BrokersUnreachable if all fail.

    Who is silent may still answer first, and is not given up: it may be busy rather than gone.
    """
    failure: ClientError = BrokersUnreachable("no broker is known")
    asked: list[asyncio.Task[T]] = []
    try:
        for ask in asks:
            asked.append(asyncio.ensure_future(_answer(ask)))
            await asyncio.wait(asked, timeout=patience_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            answer, failure, asked = _looked_at(asked, failure)
            if answer is not None:
                return answer.result()
        while asked:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            answer, failure, asked = _looked_at(asked, failure)
            if answer is not None:
                return answer.result()
    finally:
        for task in asked:
            task.cancel()
    raise BrokersUnreachable(f"no broker answered; last: {failure}") from failure


async def _answer(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


def _looked_at(
    asked: list[asyncio.Task[T]], failure: ClientError
) -> tuple[asyncio.Task[T] | None, ClientError, list[asyncio.Task[T]]]:
    """Somebody who answered or failed for another reason than silence, the last failure, and those still silent."""
    for task in asked:
        if not task.done():
            continue
        error = task.exception()
        if not isinstance(error, ConnectionLost):
            return task, failure, [other for other in asked if other is not task]
        failure = error
    return None, failure, [task for task in asked if not task.done()]

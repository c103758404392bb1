"""What the handlers of group requests share: answers that may come later, and requests that name several groups."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from tidelog.wire.definition import Response

ResponseT = TypeVar("ResponseT", bound=Response)
T = TypeVar("T")
AnswerT = TypeVar("AnswerT")

_ASKED_AT_ONCE: Final = 50
_LISTED_PER_SLICE: Final = 1_000
PARTITIONS_PER_SLICE: Final = 500
"""How many partitions a handler looks at before others have their turn."""


def adapted(
    answer: ResponseT | Awaitable[ResponseT], adapt: Callable[[ResponseT], ResponseT]
) -> ResponseT | Awaitable[ResponseT]:
    """The answer in the words of another version, as soon as there is one."""
    return adapt(answer) if isinstance(answer, Response) else _adapted_later(answer, adapt)


async def _adapted_later(answer: Awaitable[ResponseT], adapt: Callable[[ResponseT], ResponseT]) -> ResponseT:
    return adapt(await answer)


async def settled(answer: ResponseT | Awaitable[ResponseT]) -> ResponseT:
    """The answer, waited for."""
    return answer if isinstance(answer, Response) else await answer


async def in_order(parts: Iterable[Sequence[T]], key: Callable[[T], str]) -> tuple[T, ...]:
    """All elements of several lists by their keys; others have their turn after each list, and now and then while they are put together."""
    ordered: list[list[T]] = []
    for part in parts:
        ordered.append(sorted(part, key=key))
        await asyncio.sleep(0)
    merged: list[T] = []
    for element in heapq.merge(*ordered, key=key):
        merged.append(element)
        if len(merged) % _LISTED_PER_SLICE == 0:
            await asyncio.sleep(0)
    return tuple(merged)


async def ask_each(asked: Sequence[T], ask: Callable[[T], Awaitable[AnswerT]]) -> tuple[AnswerT, ...]:
    """All answers in the order of what was asked; a few are waited for at a time, so that a long request leaves room for others."""
    answers: list[AnswerT] = []
    for start in range(0, len(asked), _ASKED_AT_ONCE):
        answers += await asyncio.gather(*(ask(one) for one in asked[start : start + _ASKED_AT_ONCE]))
        await asyncio.sleep(0)
    return tuple(answers)

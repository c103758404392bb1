"""How often others have their turn while something is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def with_turns(work: Awaitable[T]) -> tuple[T, int]:
    """What comes of it, and how many turns the loop has taken until then."""
    loop, turns = asyncio.get_running_loop(), 0
    task = asyncio.ensure_future(work)

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not task.done():
            loop.call_soon(turn)

    turn()
    return await task, turns

"""The background tasks of a client object: one TaskGroup, entered and left by the owner's `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class TaskScope:
    """Tasks that live as long as their owner. One that crashes cancels the owner's `async with` block and is raised from its end."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        # A dict, because a set would cancel in an order that no simulation could repeat.
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def open(self) -> None:
        """Begin; must be called by the task that will call `close`."""
        await self._group.__aenter__()

    def spawn(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """Run `work` until it ends or the scope does."""
        task = self._group.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    async def close(self) -> None:
        """Cancel what still runs and wait until nothing does."""
        for task in list(self._tasks):
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

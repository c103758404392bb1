"""From callers that wait, as those of Spark and of tests do, to our client, which awaits: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")
_STOP_S: Final = 5.0  # for clients that say goodbye; whoever leaves does not wait longer


class Bridge:
    """Runs coroutines for callers that block. Use it as a context manager, in the process that made it: a fork has no thread.

    `hold` opens a client that stays open between calls. All that is held is let go of, newest first, when the bridge is closed.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog client", daemon=True)
        self._held: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """What `work` returns, or raises. Raises TimeoutError, and ends the work, when that takes longer than `timeout_s`."""
        future = asyncio.run_coroutine_threadsafe(_bounded(work, timeout_s), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def hold(self, client: AbstractAsyncContextManager[T]) -> T:
        """Open `client` and keep it open: in one task, as a TaskGroup wants it."""
        return self.run(self._hold(client))

    def iterate(self, work: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        """The iterator that `work` makes on the loop; its steps are for `run`."""
        return self.run(_called(work))

    def close(self) -> None:
        """Let go of everything, then of the thread. Harmless when done twice."""
        if self._loop.is_closed():
            return
        try:
            self.run(self._let_go(), timeout_s=_STOP_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_S)
            if not self._thread.is_alive():
                self._loop.close()

    async def _hold(self, client: AbstractAsyncContextManager[T]) -> T:
        opened: asyncio.Future[T] = self._loop.create_future()
        released = asyncio.Event()
        task = self._loop.create_task(_keep(client, opened, released))
        self._held.append((task, released))
        return await opened

    async def _let_go(self) -> None:
        for task, released in reversed(self._held):
            released.set()
            await asyncio.wait({task})
        self._held.clear()


async def _keep(client: AbstractAsyncContextManager[T], opened: asyncio.Future[T], released: asyncio.Event) -> None:
    try:
        async with client as entered:
            opened.set_result(entered)
            await released.wait()
    except BaseException as failure:
        if opened.done():
            raise
        opened.set_exception(failure)


async def _bounded(work: Coroutine[Any, Any, T], timeout_s: float | None) -> T:
    async with asyncio.timeout(timeout_s):
        return await work


async def _called(work: Callable[[], T]) -> T:
    return work()

"""Handles with a session, closed in the end, and facts to wait for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from tidelog.registry import RegistryUnavailable
from tidelog.registry.zookeeper import ZooKeeperRegistry
from tidelog.registry.zookeeper_options import ZooKeeperOptions

T = TypeVar("T")

DEADLINE_S: Final = 120
SESSION_TIMEOUT_MS: Final = 30_000
_numbers: Final = itertools.count(1)


def run(story: Coroutine[Any, Any, T]) -> T:
    """Tell a story, within a bound."""

    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE_S):
            return await story

    return asyncio.run(bounded())


def new_chroot() -> str:
    """A place nobody has used before."""
    return f"/faults/{next(_numbers)}"


@asynccontextmanager
async def opened(
    connect: str, *, session_timeout_ms: int = SESSION_TIMEOUT_MS, options: ZooKeeperOptions | None = None
) -> AsyncIterator[ZooKeeperRegistry]:
    """A handle with a session."""
    registry = ZooKeeperRegistry(connect, session_timeout_ms=session_timeout_ms, options=options)
    try:
        await registry.open_session()
        yield registry
    finally:
        await registry.close()


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Ask until the registry can be used, as its users do."""
    while True:
        try:
            return await call()
        except RegistryUnavailable as failure:
            if not failure.may_pass:
                raise


async def until_unavailable(registry: ZooKeeperRegistry) -> None:
    """Ask until it raises RegistryUnavailable."""
    while True:
        await registry.get("/")


class Bell:
    """Rung by a watch."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self._rung.set()

    async def wait(self) -> None:
        """Until it rings (again)."""
        await self._rung.wait()
        self._rung.clear()

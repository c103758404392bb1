"""Requests parked until something changes about a partition, or until their time is up (Kafka calls this the purgatory).

A waiter does not know what it waits for; it is woken and looks again. That keeps the conditions (high watermark reached, enough bytes,
leadership lost) with the handlers that understand them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterator
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_WOKEN_AT_ONCE: Final = 100


class Waiters(Generic[Key]):
    """Futures by what they wait on. Bounded by the connections: each parks at most one request."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[asyncio.Future[bool], None]] = {}
        self.count = 0

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits on anything."""
        return not self._by_key

    def wake(self, key: Key) -> None:
        """Let everyone who waits on `key` look again; a crowd a few at a time, with a look at the world in between."""
        waiting = self._by_key.get(key)
        if waiting:
            crowd = iter(list(waiting)) if len(waiting) > _WOKEN_AT_ONCE else iter(waiting)
            _wake_some(crowd)

    async def changed(self, keys: Collection[Key], *, timeout_s: float) -> bool:
        """Wait until any of `keys` is woken; False when the time was up first."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(timeout_s, _expire, future)
        for key in keys:
            self._by_key.setdefault(key, {})[future] = None
        self.count += 1
        try:
            return await future
        finally:
            self.count -= 1
            timer.cancel()
            self._forget(future, keys)

    def _forget(self, future: asyncio.Future[bool], keys: Collection[Key]) -> None:
        for key in keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(future, None)
                if not waiting:
                    del self._by_key[key]


def _wake_some(crowd: Iterator[asyncio.Future[bool]]) -> None:
    woken = 0
    for future in crowd:
        if not future.done():
            future.set_result(True)
            woken += 1
            if woken == _WOKEN_AT_ONCE:
                asyncio.get_running_loop().call_soon(_wake_some, crowd)
                return


def _expire(future: asyncio.Future[bool]) -> None:
    # Who ends the wait says so, rather than a clock: uvloop fires timers below a millisecond at once, and those have no `when`.
    if not future.done():
        future.set_result(False)

"""Requests parked until something changes about a partition, or until their time is up (Kafka calls this the purgatory).

A waiter does not know what it waits for; it is woken and looks again. It is parked before it looks, so that what happens between the look
and the wait is not missed: a wake is remembered until the next wait. That keeps the conditions (high watermark reached, enough bytes,
leadership lost) with the handlers that understand them. Where a look is cheap, the handler lends it to its waiter (`is_due`), which then is
woken only when that is worth it: of many producers who wait on one partition, each change of it concerns a few.

Who must know at any time what has changed, parked or not, watches: a watcher is called on every wake with the key that was woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_WOKEN_AT_ONCE: Final = 100


class Waiter:
    """One parked request."""

    __slots__ = ("_future", "_is_due", "_is_woken")

    def __init__(self, is_due: Callable[[], bool] | None = None) -> None:
        self._is_due = is_due
        self._is_woken = False
        self._future: asyncio.Future[bool] | None = None

    def wake(self) -> bool:
        """Let it look again, if that is worth it; whether there was something to do."""
        if self._is_woken:
            return False
        if self._is_due is None or self._is_due():
            self._is_woken = True
            if self._future is not None and not self._future.done():
                self._future.set_result(True)
        return True

    def forget(self) -> None:
        """What has happened so far is known: only what happens from now on wakes it."""
        self._is_woken = False

    async def woken(self, *, timeout_s: float) -> bool:
        """Wait until woken, which may have happened since the last wait; False when the time was up first."""
        if not self._is_woken:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(timeout_s, _expire, self._future)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        is_woken, self._is_woken = self._is_woken, False
        return is_woken


class Waiters(Generic[Key]):
    """Waiters by what they wait on. Bounded by the connections: each parks at most one request."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[Waiter, None]] = {}
        self._watchers: dict[Key, tuple[Callable[[Key], None], ...]] = {}
        self.count = 0
        self.is_dismissed = False

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits on anything."""
        return not self._by_key

    @property
    def watcher_count(self) -> int:
        """How many keys are watched."""
        return len(self._watchers)

    def wake(self, key: Key) -> None:
        """Let everyone who waits on `key` look again; a crowd a few at a time, with a look at the world in between."""
        for watcher in self._watchers.get(key, ()):
            watcher(key)
        waiting = self._by_key.get(key)
        if waiting:
            _wake_some(iter(list(waiting)) if len(waiting) >= _WOKEN_AT_ONCE else iter(waiting))

    def dismiss(self) -> None:
        """The broker is leaving: nobody is to wait any longer, now or later."""
        self.is_dismissed = True
        for key in list(self._by_key | self._watchers):
            self.wake(key)

    def watch(self, key: Key, watcher: Callable[[Key], None]) -> None:
        """Call `watcher` on every wake of `key`; it must not wake anybody here itself. Twice is once."""
        watchers = self._watchers.get(key, ())
        if watcher not in watchers:
            self._watchers[key] = (*watchers, watcher)

    def unwatch(self, key: Key, watcher: Callable[[Key], None]) -> None:
        """Call it no more; fine where it was not called."""
        left = tuple(one for one in self._watchers.get(key, ()) if one != watcher)
        if left:
            self._watchers[key] = left
        else:
            self._watchers.pop(key, None)

    @contextmanager
    def parked(self, keys: Collection[Key], is_due: Callable[[], bool] | None = None) -> Iterator[Waiter]:
        """A waiter on any of `keys`, for as long as the block lasts. `is_due` is called by whoever wakes, so it must not fail or park."""
        waiter = Waiter(is_due)
        for key in keys:
            self._by_key.setdefault(key, {})[waiter] = None
        self.count += 1
        try:
            yield waiter
        finally:
            self.count -= 1
            self._forget(waiter, keys)

    def _forget(self, waiter: Waiter, keys: Collection[Key]) -> None:
        for key in keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(waiter, None)
                if not waiting:
                    del self._by_key[key]


def _wake_some(crowd: Iterator[Waiter]) -> None:
    woken = 0
    for waiter in crowd:
        woken += waiter.wake()
        if woken == _WOKEN_AT_ONCE:
            asyncio.get_running_loop().call_soon(_wake_some, crowd)
            return


def _expire(future: asyncio.Future[bool]) -> None:
    # uvloop fires timers below a millisecond at once, so whether a wait was too long is told by who ended it, not by a clock.
    if not future.done():
        future.set_result(False)

"""Timers as data: which key is due when. Nothing waits here; whoever owns them asks what is due.

A member that says it is alive puts its deadline off, and does so far more often than a deadline is reached. So putting off only writes the
new time down: the queue keeps the old, earlier entry, and puts the key back where it belongs when that entry comes up.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from tidelog.coordinator.machine import TimerKey

_SPARE: Final = 64
"""Entries that may be out of date before the queue is made anew, however few keys there are."""


class Timers:
    """At most one time per key. Keys that are due at the same time come in the order in which they were queued."""

    def __init__(self) -> None:
        self._due_ms: dict[TimerKey, float] = {}
        self._queued: dict[TimerKey, tuple[float, int]] = {}  # The entry that counts; not later than the key is due.
        self._queue: list[tuple[float, int, TimerKey]] = []
        self._number = 0

    def __len__(self) -> int:
        """How many keys have a time."""
        return len(self._due_ms)

    def __contains__(self, key: TimerKey) -> bool:
        """Whether the key has a time."""
        return key in self._due_ms

    @property
    def next_ms(self) -> float | None:
        """When to look again: not after the first key is due, but possibly before. None if nothing is set."""
        return self._queue[0][0] if self._queue else None

    @property
    def entry_count(self) -> int:
        """Entries of the queue, those out of date included; bounded by the keys."""
        return len(self._queue)

    def set(self, key: TimerKey, at_ms: float | None) -> None:
        """Make the key due at this time instead of any other; never, if None."""
        if at_ms is None:
            self._due_ms.pop(key, None)
            return
        self._due_ms[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued[0]:
            self._enqueue(key, at_ms)

    def pop_due(self, now_ms: float) -> TimerKey | None:
        """Take out one key that is due; None if none is."""
        while self._queue and self._queue[0][0] <= now_ms:
            at_ms, number, key = heappop(self._queue)
            if self._queued.get(key) != (at_ms, number):
                continue  # Brought forward meanwhile: another entry counts.
            del self._queued[key]
            due_ms = self._due_ms.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due_ms[key]
                return key
            self._enqueue(key, due_ms)
        return None

    def clear(self) -> None:
        """Forget all of them."""
        self._due_ms.clear()
        self._queued.clear()
        self._queue.clear()

    def _enqueue(self, key: TimerKey, at_ms: float) -> None:
        self._number += 1
        self._queued[key] = (at_ms, self._number)
        heappush(self._queue, (at_ms, self._number, key))
        if len(self._queue) > 2 * len(self._due_ms) + _SPARE:
            self._tidy()

    def _tidy(self) -> None:
        """Drop the entries of keys that have no time any more, and those that were brought forward."""
        self._queued = {key: entry for key, entry in self._queued.items() if key in self._due_ms}
        self._queue = [(at_ms, number, key) for key, (at_ms, number) in self._queued.items()]
        heapify(self._queue)

"""Notifications of changed settings, as Kafka leaves them for brokers that watch, and their end: nobody needs one for longer than this."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from tidelog.model import TimestampMs

KEPT_MS: Final = 15 * 60_000


class Notifications:
    """Which notifications there are, and since when as far as we know."""

    def __init__(self, paths: Iterable[str], now_ms: TimestampMs) -> None:
        self._since: deque[tuple[str, TimestampMs]] = deque((path, now_ms) for path in paths)

    def __contains__(self, path: str) -> bool:
        return any(path == known for known, _ in self._since)

    def add(self, path: str, now_ms: TimestampMs) -> None:
        """One more."""
        self._since.append((path, now_ms))

    def take_expired(self, now_ms: TimestampMs) -> list[str]:
        """Those whose time is over; they are the caller's to remove."""
        expired = []
        while self._since and now_ms - self._since[0][1] > KEPT_MS:
            expired.append(self._since.popleft()[0])
        return expired

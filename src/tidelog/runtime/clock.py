"""Time, asked for by name: a monotonic one for durations, a wall clock for timestamps that leave the process."""

from __future__ import annotations

from typing import Protocol

from tidelog.model import TimestampMs


class Clock(Protocol):
    """Both readings are in milliseconds. Waiting is done with asyncio, whose loop time is the monotonic reading."""

    def monotonic_ms(self) -> float:
        """Time since an arbitrary start; never goes back, not even when the wall clock does."""
        ...

    def wall_ms(self) -> TimestampMs:
        """Milliseconds since the Unix epoch; may jump either way."""
        ...

    def give_way(self) -> None:
        """Let threads go first that wait for the core we are on, and come back at once where none does.

        For whoever has just answered somebody and goes on with work that nobody waits for: who was woken by the answer may be queued for the
        same core, and would hear of it when that work is done.
        """
        ...

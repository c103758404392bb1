"""Simulated time: the monotonic reading is the loop's (or moved by hand in a test without a loop); the wall clock may jump and drift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.model import TimestampMs, invariant

WALL_START_MS: Final[TimestampMs] = 1_700_000_000_000


class SimulatedClock:
    """One node's clock. `SimulatedClock()` stands still until `advance_ms`."""

    def __init__(
        self, monotonic_ms: Callable[[], float] | None = None, *, wall_start_ms: TimestampMs = WALL_START_MS
    ) -> None:
        self._by_hand_ms = 0.0
        self._source = monotonic_ms
        self._wall_base_ms = float(wall_start_ms)
        self._drift_since_ms = 0.0
        self._drift = 0.0
        self.ways_given = 0

    def monotonic_ms(self) -> float:
        """Time since the start of the run."""
        return self._by_hand_ms if self._source is None else self._source()

    def wall_ms(self) -> TimestampMs:
        """What this node believes the time of day to be."""
        now_ms = self.monotonic_ms()
        return int(self._wall_base_ms + now_ms + (now_ms - self._drift_since_ms) * self._drift)

    def give_way(self) -> None:
        """Nobody else is here; it is counted."""
        self.ways_given += 1

    def advance_ms(self, duration_ms: float) -> None:
        """Let time pass, on a clock that no loop drives."""
        invariant(
            self._source is None and duration_ms >= 0, "only a clock without a loop is moved by hand, and forwards"
        )
        self._by_hand_ms += duration_ms

    def jump_wall_ms(self, difference_ms: float) -> None:
        """Somebody sets the wall clock, either way; the monotonic reading does not notice."""
        self._wall_base_ms += difference_ms

    def set_drift(self, rate: float) -> None:
        """From now on the wall clock gains `rate` milliseconds per millisecond (negative: loses)."""
        now_ms = self.monotonic_ms()
        self._wall_base_ms += (now_ms - self._drift_since_ms) * self._drift
        self._drift_since_ms = now_ms
        self._drift = rate

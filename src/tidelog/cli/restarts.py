"""When a broker that died is started again: soon, but not ever faster when it keeps dying. A state machine told the time."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_MS: Final = 2_000
PAUSE_MS_MAX: Final = 30_000
HEALTHY_AFTER_MS: Final = 5_000  # a broker that served so long did not die of its start


class Restarts:
    """One broker's deaths. The pause doubles with every death in a row that came before the broker had served for a while."""

    def __init__(self) -> None:
        self._ready_ms: float | None = None
        self._early_deaths = 0

    def on_ready(self, now_ms: float) -> None:
        """It serves."""
        self._ready_ms = now_ms

    def on_death(self, now_ms: float) -> int:
        """How many milliseconds to wait before it is started again."""
        is_early = self._ready_ms is None or now_ms - self._ready_ms < HEALTHY_AFTER_MS
        self._early_deaths = self._early_deaths + 1 if is_early else 0
        self._ready_ms = None
        # The first early death may be somebody's kill; only those behind it look like a habit.
        doublings = min(max(0, self._early_deaths - 1), PAUSE_MS_MAX.bit_length())
        return min(FIRST_PAUSE_MS << doublings, PAUSE_MS_MAX)

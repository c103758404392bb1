"""How long to wait before trying again (KIP-580): doubling, capped, with jitter so that clients do not come back together."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.runtime import Randomness

_DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A delay that doubles from `initial_ms` with every failed attempt, never above `max_ms`."""

    initial_ms: float
    max_ms: float
    jitter: float = 0.2

    def delay_ms(self, failures: int, randomness: Randomness) -> float:
        """The wait after the `failures`-th failure in a row (1 is the first)."""
        plain = self.initial_ms * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX)
        factor = 1 - self.jitter + 2 * self.jitter * randomness.fraction()
        return float(min(plain * factor, self.max_ms))

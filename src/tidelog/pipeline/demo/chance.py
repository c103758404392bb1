"""Chance from a seed, the same on every machine and in every version of Python: SplitMix64."""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15  # of the golden ratio, as its authors have it


class Chance:
    """A stream of draws. Streams of other seeds, and of other ordinals below one seed, have nothing to do with each other."""

    def __init__(self, seed: int, ordinal: int = 0) -> None:
        self._state = _mixed(_mixed(seed & _MASK) + ordinal * _STEP)

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return (self._next() * bound) >> 64

    def between(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return low + (high - low) * (self._next() >> 11) / (1 << 53)

    def _next(self) -> int:
        self._state = (self._state + _STEP) & _MASK
        return _mixed(self._state)


def _mixed(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

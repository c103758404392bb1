"""Medians, spreads and ratios: what a set of runs says, and how surely."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A set of runs in one unit."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The run in the middle: one disturbed run does not move it."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half of the distance between best and worst, as a part of the median. A ratio closer to 1 than this says nothing."""
        return (max(self.values) - min(self.values)) / 2 / self.median if self.median else 0.0

    def __str__(self) -> str:
        return f"{self.median:,.1f} ±{self.spread:.0%}"


def percentile(sorted_values: Sequence[float], part: float) -> float:
    """The value below which `part` of the (sorted, not empty) values lie."""
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def ratio(ours: Summary, theirs: Summary) -> str:
    """How many times theirs is ours, and whether the runs scatter too much to say."""
    if not theirs.median:
        return "-"
    times = ours.median / theirs.median
    is_clear = abs(times - 1) > ours.spread + theirs.spread
    return f"{times:.2f}x" + ("" if is_clear else " (within the spread)")

"""Many trials, side by side in child processes, and what came of them all.

A child that dies, or does not come to an end, is a failure of the trial it had; another takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from tidelog.runtime.clock import Clock
from tidelog.simulation.children import Children
from tidelog.simulation.verdict import Trial, Verdict


def soak(trials: Iterable[Trial], *, jobs: int, clock: Clock) -> Generator[Verdict]:
    """Run trials in `jobs` children; each verdict as soon as it is there, in no promised order. Close it to end early."""
    with Children(iter(trials), jobs, clock) as children:
        yield from children.verdicts()


@dataclass(slots=True, kw_only=True)
class Summary:
    """What came of the trials so far."""

    trials: int = 0
    undosed: int = 0  # in which no fault acted and nothing went wrong: they do not count
    violations: dict[str, list[int]] = field(default_factory=dict)  # seeds by checker
    drawn: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    read: int = 0
    simulated_ms: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.violations

    @property
    def violation_count(self) -> int:
        """How many trials failed."""
        return sum(map(len, self.violations.values()))

    def add(self, verdict: Verdict) -> None:
        """One more."""
        self.trials += 1
        if verdict.violation is not None:
            self.violations.setdefault(verdict.violation.checker, []).append(verdict.trial.seed)
        elif not verdict.is_dosed:
            self.undosed += 1
        self.drawn.update(verdict.doses.drawn)
        self.injected.update(verdict.doses.injected)
        self.acknowledged += verdict.acknowledged
        self.read += verdict.read
        self.simulated_ms += verdict.simulated_ms

    def by_checker(self) -> list[tuple[str, list[int]]]:
        """The checkers that spoke with their seeds, the smallest seed first."""
        return sorted(((checker, sorted(seeds)) for checker, seeds in self.violations.items()), key=lambda row: row[1])

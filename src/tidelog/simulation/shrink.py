"""Making a failing trial small: fewer faults, shorter ones, less time, fewer brokers, as long as the same checker still speaks.

Faults go first, halves before quarters before single ones (the delta debugging of Zeller and Hildebrandt). Every attempt is a whole run, so
their number is bounded; what was smallest until then is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tidelog.simulation.faults.menu import Lasting
from tidelog.simulation.faults.plan import Fault, FaultPlan, PlanError
from tidelog.simulation.verdict import Trial, Verdict

RUNS_MAX: Final = 60
_SHORTEST_MS: Final = 50
_BROKERS_MIN: Final = 3

Run: TypeAlias = Callable[[Trial], Verdict]
Attempt: TypeAlias = Callable[[int, Verdict], None]
"""Heard after each run: how many there were, and the smallest verdict so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest trial found whose verdict names the same checker, and how many runs that took."""

    verdict: Verdict
    run_count: int

    @property
    def trial(self) -> Trial:
        """What to run to see it; its plan is given, not drawn."""
        return replace(self.verdict.trial, plan=self.verdict.plan)


def shrink(verdict: Verdict, run: Run, *, runs_max: int = RUNS_MAX, on_attempt: Attempt | None = None) -> Shrunk:
    """Shrink the trial of a verdict that has a violation. `run` is what makes a verdict of a trial."""
    shrinking = _Shrinking(verdict, run, runs_max, on_attempt)
    for step in (shrinking.fewer_faults, shrinking.shorter_faults, shrinking.less_time, shrinking.fewer_brokers):
        step()
    return Shrunk(verdict=shrinking.smallest, run_count=shrinking.run_count)


class _Shrinking:
    def __init__(self, verdict: Verdict, run: Run, runs_max: int, on_attempt: Attempt | None) -> None:
        self.smallest = verdict
        self.run_count = 0
        self._run = run
        self._runs_max = runs_max
        self._on_attempt = on_attempt

    def fewer_faults(self) -> None:
        """Leave out as large a part as possible, again and again, until no single fault can be left out."""
        if self._fails(self._plan.with_faults(())):
            return
        parts = 2
        while len(self._plan.faults) > 1 and self._may_run:
            size = -(-len(self._plan.faults) // parts)
            if self._leaves_out(size):
                parts = max(parts - 1, 2)
            elif size == 1:
                return
            else:
                parts = min(parts * 2, len(self._plan.faults))

    def shorter_faults(self) -> None:
        """Halve how long each fault lasts, as often as it can be."""
        for position in range(len(self._plan.faults)):
            fault = self._plan.faults[position]
            while fault.for_ms > _SHORTEST_MS and fault.means.lasting is not Lasting.MOMENT:
                fault = replace(fault, for_ms=fault.for_ms // 2)
                if not self._fails(self._with(position, fault)):
                    break

    def less_time(self) -> None:
        """End the load sooner: right after the last fault, then by halves."""
        last_ms = max((fault.at_ms for fault in self._plan.faults), default=0)
        shortest = last_ms // 1000 + 1
        for seconds in _descending(self.smallest.trial.seconds, shortest):
            if not self._fails(self._plan, seconds=seconds):
                return

    def fewer_brokers(self) -> None:
        """Do without the last broker, where no fault names it."""
        while self._plan.brokers > _BROKERS_MIN:
            try:
                plan = replace(self._plan, brokers=self._plan.brokers - 1)
            except PlanError:
                return
            if not self._fails(plan):
                return

    @property
    def _plan(self) -> FaultPlan:
        return self.smallest.plan

    @property
    def _may_run(self) -> bool:
        return self.run_count < self._runs_max

    def _leaves_out(self, size: int) -> bool:
        faults = self._plan.faults
        smaller = (faults[:start] + faults[start + size :] for start in range(0, len(faults), size))
        return any(self._fails(self._plan.with_faults(kept)) for kept in smaller)

    def _with(self, position: int, fault: Fault) -> FaultPlan:
        faults = self._plan.faults
        return self._plan.with_faults((*faults[:position], fault, *faults[position + 1 :]))

    def _fails(self, plan: FaultPlan, *, seconds: int | None = None) -> bool:
        """Whether the same checker speaks with this plan; if so, it is the smallest from now on."""
        trial = replace(self.smallest.trial, plan=plan, seconds=seconds or self.smallest.trial.seconds)
        if not self._may_run or trial == self.smallest.trial:
            return False
        self.run_count += 1
        verdict = self._run(trial)
        is_same = (
            verdict.violation is not None
            and self.smallest.violation is not None
            and verdict.violation.checker == self.smallest.violation.checker
        )
        if is_same:
            self.smallest = verdict
        if self._on_attempt is not None:
            self._on_attempt(self.run_count, self.smallest)
        return is_same


def _descending(from_: int, to: int) -> Iterator[int]:
    """Ever smaller numbers: the halves of the way, down to `to`."""
    while from_ > to:
        from_ = to + (from_ - to) // 2
        yield from_

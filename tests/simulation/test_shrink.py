"""Failing plans become small: fewer faults, shorter, less time, fewer brokers, and always the same checker."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.simulation.faults.plan import Fault, FaultPlan
from tidelog.simulation.shrink import shrink
from tidelog.simulation.verdict import Trial, Verdict, Violation

KILL = Fault(at_ms=3_000, kind="kill", targets=("broker-2",), for_ms=4_000)
CUT = Fault(at_ms=9_500, kind="isolate", targets=("broker-1",), for_ms=6_400)
NOISE = tuple(Fault(at_ms=500 * n, kind="pause", targets=("broker-3",), for_ms=100) for n in range(20))


class Model:
    """Runs trials by a rule: which checker speaks. Remembers them all."""

    def __init__(self, speaks: Callable[[Trial, FaultPlan], str | None]) -> None:
        self.trials: list[Trial] = []
        self._speaks = speaks

    def __call__(self, trial: Trial) -> Verdict:
        self.trials.append(trial)
        plan = trial.plan or FaultPlan()
        checker = self._speaks(trial, plan)
        violation = None if checker is None else Violation(checker=checker, sentence="it is so", at_ms=1.0)
        return Verdict(trial=trial, plan=plan, violation=violation)


def kinds(plan: FaultPlan) -> list[str]:
    return [fault.kind for fault in plan.faults]


def needs_both(_: Trial, plan: FaultPlan) -> str | None:
    return "I3" if {"kill", "isolate"} <= set(kinds(plan)) else None


def failing(model: Model, *faults: Fault, brokers: int = 3) -> Verdict:
    return model(Trial(seed=1, plan=FaultPlan(brokers=brokers, faults=faults)))


def test_only_the_faults_that_matter_stay() -> None:
    model = Model(needs_both)
    shrunk = shrink(failing(model, *NOISE, KILL, CUT), model)
    assert kinds(shrunk.verdict.plan) == ["kill", "isolate"]
    assert shrunk.verdict.violation is not None
    assert shrunk.run_count == len(model.trials) - 1


def test_faults_last_no_longer_than_they_must() -> None:
    def needs_a_second(_: Trial, plan: FaultPlan) -> str | None:
        return "I3" if any(fault.kind == "isolate" and fault.for_ms >= 1_000 for fault in plan.faults) else None

    model = Model(needs_a_second)
    (fault,) = shrink(failing(model, KILL, CUT), model).verdict.plan.faults
    assert fault.for_ms == 1_600


def test_the_load_ends_soon_after_the_last_fault() -> None:
    model = Model(needs_both)
    shrunk = shrink(failing(model, *NOISE, KILL, CUT), model)
    assert shrunk.trial.seconds == 10
    assert shrunk.trial.plan == shrunk.verdict.plan


def test_brokers_that_no_fault_names_are_left_out_but_three_stay() -> None:
    model = Model(needs_both)
    assert shrink(failing(model, KILL, CUT, brokers=5), model).verdict.plan.brokers == 3
    named = Fault(at_ms=1, kind="kill", targets=("broker-4",), for_ms=50)
    needs_it = Model(lambda _, plan: "I3" if named in plan.faults else None)
    assert shrink(failing(needs_it, named, brokers=5), needs_it).verdict.plan.brokers == 4


def test_another_checkers_voice_does_not_count() -> None:
    def speaks(_: Trial, plan: FaultPlan) -> str | None:
        return "I3" if len(plan.faults) >= 4 else "I12"

    model = Model(speaks)
    shrunk = shrink(failing(model, *NOISE), model)
    assert len(shrunk.verdict.plan.faults) == 4
    assert shrunk.verdict.violation is not None
    assert shrunk.verdict.violation.checker == "I3"


def test_what_fails_without_any_fault_is_said_to() -> None:
    model = Model(lambda *_: "I4")
    shrunk = shrink(failing(model, *NOISE), model)
    assert shrunk.verdict.plan.faults == ()
    assert shrunk.trial.seconds == 1


def test_the_number_of_runs_is_bounded() -> None:
    model = Model(needs_both)
    shrunk = shrink(failing(model, *NOISE, KILL, CUT), model, runs_max=5)
    assert len(model.trials) == 1 + 5
    assert shrunk.run_count == 5
    assert needs_both(shrunk.trial, shrunk.verdict.plan) == "I3"


def test_whoever_waits_is_told_of_every_run() -> None:
    heard: list[tuple[int, int]] = []
    model = Model(needs_both)
    shrunk = shrink(
        failing(model, *NOISE, KILL, CUT),
        model,
        on_attempt=lambda count, smallest: heard.append((count, len(smallest.plan.faults))),
    )
    assert [count for count, _ in heard] == list(range(1, shrunk.run_count + 1))
    assert heard[-1][1] == 2

"""Many trials in child processes: each is heard once, also when its process dies, and the sum is right."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.runtime.real import RealClock
from tidelog.simulation import children
from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.faults.plan import Fault, FaultPlan
from tidelog.simulation.soak import Summary, soak
from tidelog.simulation.verdict import SIMULATOR, Trial, Verdict, Violation

PLAN = FaultPlan(faults=(Fault(at_ms=100, kind="bounce", targets=("broker-2",)),))


def child_pids() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.proof
def test_every_trial_is_heard_once() -> None:
    trials = [Trial(seed=seed, seconds=1, plan=PLAN) for seed in range(3)]
    verdicts = list(soak(trials, jobs=2, clock=RealClock()))
    assert sorted(verdict.trial.seed for verdict in verdicts) == [0, 1, 2]
    assert all(verdict.is_ok and verdict.is_dosed and verdict.plan == PLAN for verdict in verdicts)
    assert len({verdict.digest for verdict in verdicts}) == 3


def test_a_process_that_dies_is_a_failure_of_its_trial_and_of_no_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho the roof is on fire >&2\nexit 3\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    verdicts = list(soak([Trial(seed=1), Trial(seed=2), Trial(seed=3)], jobs=2, clock=RealClock()))
    assert sorted(verdict.trial.seed for verdict in verdicts) == [1, 2, 3]
    for verdict in verdicts:
        assert verdict.violation is not None
        assert verdict.violation.checker == SIMULATOR
        assert (
            verdict.violation.sentence == "the process of the trial ended with 3; its last words: the roof is on fire"
        )


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_failure_of_its_trial() -> None:
    child = children.Child(Trial(seed=1, seconds=1000), RealClock())
    os.kill(child.pid, signal.SIGKILL)
    verdict = child.read()
    child.close()
    assert verdict is not None
    assert verdict.violation is not None
    assert "ended with -9" in verdict.violation.sentence
    assert not child.is_alive


@pytest.mark.slow
def test_a_trial_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "TRIAL_WITHIN_MS", 10)
    monkeypatch.setattr(children, "SECOND_WITHIN_MS", 1)
    (verdict,) = soak([Trial(seed=1)], jobs=1, clock=RealClock())
    assert verdict.violation is not None
    assert verdict.violation.checker == SIMULATOR
    assert "did not end within" in verdict.violation.sentence


@pytest.mark.slow
def test_whoever_has_heard_enough_ends_the_children() -> None:
    before = child_pids()
    with closing(soak((Trial(seed=seed, seconds=1) for seed in range(1000)), jobs=2, clock=RealClock())) as verdicts:
        next(verdicts)
        assert len(child_pids()) == len(before) + 2
    assert child_pids() == before


def verdict_of(seed: int, checker: str | None = None, *, injected: int = 1) -> Verdict:
    doses = Doses()
    doses.draw("kill")
    for _ in range(injected):
        doses.inject("kill")
    violation = None if checker is None else Violation(checker=checker, sentence="so", at_ms=1.5)
    return Verdict(
        trial=Trial(seed=seed),
        plan=PLAN,
        violation=violation,
        doses=doses,
        acknowledged=10,
        read=20,
        simulated_ms=500.0,
    )


def test_the_sum_tells_what_counts_and_who_spoke_first() -> None:
    summary = Summary()
    for verdict in (
        verdict_of(9, "I3"),
        verdict_of(4, "I5"),
        verdict_of(5, "I3"),
        verdict_of(6),
        verdict_of(7, injected=0),
    ):
        summary.add(verdict)
    assert not summary.is_ok
    assert (summary.trials, summary.undosed, summary.violation_count) == (5, 1, 3)
    assert summary.by_checker() == [("I5", [4]), ("I3", [5, 9])]
    assert (summary.drawn["kill"], summary.injected["kill"]) == (5, 4)
    assert (summary.acknowledged, summary.read, summary.simulated_ms) == (50, 100, 2500.0)


def test_a_verdict_is_the_same_after_its_way_as_json() -> None:
    verdict = replace(verdict_of(4, "I5"), trace=("one", "two"), digest="d", callbacks=3)
    copy = Verdict.from_json(json.loads(json.dumps(verdict.to_json(with_trace=True))))
    assert replace(copy, doses=verdict.doses) == verdict
    assert (copy.doses.drawn, copy.doses.injected) == (verdict.doses.drawn, verdict.doses.injected)
    given = replace(verdict, trial=replace(verdict.trial, plan=PLAN))
    assert Verdict.from_json(given.to_json()).trial == given.trial

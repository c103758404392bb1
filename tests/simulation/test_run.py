"""One run of a seed: what it checks, when it looks, and that it repeats."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.clusters import T0, kills, make_topic, produce
from tests.tiers import rest_proven
from tidelog.simulation import SimulationFailed
from tidelog.simulation.checkers import (
    CheckerDied,
    InvariantBroken,
    all_checkers,
    cluster_checkers,
    end_checkers,
    named,
    recovery_repeats,
)
from tidelog.simulation.checkers.recovery_repeats import recovery_violations
from tidelog.simulation.cluster import LOG_DIR, LOOK_EVERY_MS, SimulatedCluster
from tidelog.simulation.failures import Deadlock, Livelock
from tidelog.simulation.faults.plan import FaultPlan
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.run import LIVENESS, WITHOUT_ONE, Progress, plan_of, run, violation_of
from tidelog.simulation.verdict import SIMULATOR, Trial, Verdict
from tidelog.simulation.workloads import History

REPEATED = (5, 3)  # seeds whose faults act within the first seconds
SECONDS = 6


class SpeaksOnce:
    """A checker that finds something broken at one look, and never again."""

    name = "I0 speaks once"

    def __init__(self, at_look: int) -> None:
        self.look_count = 0
        self._at_look = at_look

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        self.look_count += 1
        if self.look_count == self._at_look:
            yield f"look {self.look_count} at {len(snapshot.states)} partitions"


def test_what_was_broken_for_one_look_fails_the_run() -> None:
    checker = SpeaksOnce(at_look=3)
    cluster = SimulatedCluster(1, brokers=2)
    cluster.checkers.append(checker)
    with pytest.raises(SimulationFailed, match="I0 speaks once: look 3 at 0 partitions") as failed, cluster:
        cluster.world.run_for_ms(10 * LOOK_EVERY_MS)
    assert isinstance(failed.value.__cause__, InvariantBroken)
    assert failed.value.__cause__.checker == "I0 speaks once"
    assert checker.look_count == 3


class Dies:
    """A checker with a bug of its own."""

    name = "I0 dies"

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        yield from {"there": "nothing"}[str(snapshot.now_ms)]


def test_a_checker_that_dies_fails_the_run_and_is_named() -> None:
    cluster = SimulatedCluster(1, brokers=2)
    cluster.checkers.append(Dies())
    with pytest.raises(SimulationFailed, match="the checker I0 dies died of KeyError") as failed, cluster:
        cluster.world.run_for_ms(10 * LOOK_EVERY_MS)
    found = violation_of(failed.value, 1.0)
    assert found.checker == SIMULATOR
    assert re.search(r"test_run.py:\d+ in look", found.sentence)


def test_an_end_checker_that_dies_is_named_and_one_that_speaks_is_heard() -> None:
    with pytest.raises(CheckerDied, match="the checker I0 dies died of ZeroDivisionError"), named("I0 dies"):
        divmod(1, 0)
    with pytest.raises(InvariantBroken), named("I0 speaks"):
        raise InvariantBroken("I0 speaks", "something is wrong", 1.0)


@kills
def test_a_run_that_dies_itself_is_a_violation_with_its_trace() -> None:
    def hear(progress: Progress) -> None:
        raise LookupError(progress.phase)

    verdict = run(Trial(seed=1, seconds=1, plan=FaultPlan()), on_progress=hear)
    assert verdict.violation is not None
    assert verdict.violation.checker == SIMULATOR
    assert "the run died of LookupError('start the brokers')" in verdict.violation.sentence
    assert verdict.trace


@kills
@pytest.mark.parametrize("end", ["kill", "power_cut", "bounce", "restart"])
def test_the_checkers_look_right_before_a_life_ends(end: str) -> None:
    checker = SpeaksOnce(at_look=0)
    cluster = SimulatedCluster(1, brokers=2)
    cluster.checkers.append(checker)
    with cluster:
        cluster.until_ready()
        looked = checker.look_count
        getattr(cluster.brokers[1], end)()
        assert checker.look_count == looked + 1


# One run.


@cache
def verdict_of(seed: int) -> Verdict:
    return run(Trial(seed=seed, seconds=SECONDS))


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(REPEATED))
def test_a_seed_gives_the_same_trace_and_bytes_again(seed: int) -> None:
    first, again = verdict_of(seed), run(Trial(seed=seed, seconds=SECONDS))
    assert first.is_dosed
    assert again.trace == first.trace
    assert again.digest == first.digest


@kills
@pytest.mark.proof
def test_another_seed_gives_another_run() -> None:
    assert len({verdict_of(seed).digest for seed in REPEATED}) == len(REPEATED)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", rest_proven(["4711", "0"]))
def test_the_order_of_hashes_decides_nothing(hash_seed: str) -> None:
    seed = REPEATED[0]
    said = subprocess.run(
        [sys.executable, "-m", "tidelog.simulation.worker"],
        input=json.dumps(Trial(seed=seed, seconds=SECONDS).to_json()) + "\n",
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    ).stdout
    assert Verdict.from_json(json.loads(said)).digest == verdict_of(seed).digest


@kills
@pytest.mark.slow
def test_a_plan_given_and_the_same_plan_drawn_give_the_same_run() -> None:
    seed = REPEATED[0]
    plan = FaultPlan.from_json(plan_of(Trial(seed=seed, seconds=SECONDS)).to_json())
    assert run(Trial(seed=seed, seconds=SECONDS, plan=plan)).digest == verdict_of(seed).digest


@kills
@pytest.mark.slow
def test_a_run_tells_its_phases_and_every_second_of_load() -> None:
    heard: list[Progress] = []
    verdict = run(Trial(seed=1, seconds=2, plan=FaultPlan()), on_progress=heard.append)
    assert verdict.is_ok
    assert not verdict.is_dosed
    assert [progress.phase for progress in heard].count("load and faults") == 1 + 2
    assert heard[-1].phase == "stop the brokers"
    assert heard[-1].acknowledged == verdict.acknowledged > 0


@kills
@pytest.mark.proof
def test_what_does_not_heal_in_time_is_told() -> None:
    verdict = run(Trial(seed=1, seconds=1, plan=FaultPlan(brokers=1)))  # One replica, where two must have every record.
    assert verdict.violation is not None
    assert verdict.violation.checker == LIVENESS
    assert "60 s later still the workload" in verdict.violation.sentence


@kills
@pytest.mark.proof
def test_a_cluster_that_does_not_go_on_without_one_broker_is_told() -> None:
    slow = {"tidelog.registry.session.timeout.ms": "300000"}  # Nobody hears in time that it died.
    verdict = run(Trial(seed=1, seconds=1, plan=FaultPlan(session_timeout_ms=300_000, settings=slow)))
    assert verdict.violation is not None
    assert verdict.violation.checker == WITHOUT_ONE
    assert "60 s later still " in verdict.violation.sentence
    assert " has the leader " in verdict.violation.sentence


@kills
@pytest.mark.slow
def test_every_run_of_three_brokers_does_without_one_for_a_while() -> None:
    heard: list[Progress] = []
    verdict = run(Trial(seed=2, seconds=1, plan=FaultPlan()), on_progress=heard.append)
    assert verdict.is_ok
    assert sum(progress.phase.startswith("go on without broker ") for progress in heard) == 1


def test_a_failure_of_the_world_is_named_after_its_kind() -> None:
    broken = SimulationFailed("x")
    broken.__cause__ = InvariantBroken("I4 bounds hold", "they do not", 5.0)
    assert violation_of(broken, 9.0).checker == "I4 bounds hold"
    assert violation_of(broken, 9.0).at_ms == 5.0
    assert violation_of(Livelock("round and round"), 9.0).checker == "livelock"
    assert violation_of(Deadlock("nobody moves"), 9.0).checker == "deadlock"
    died = violation_of(SimulationFailed("broker-1#1: the main raised"), 9.0)
    assert (died.checker, died.sentence, died.at_ms) == ("a task died", "broker-1#1: the main raised", 9.0)


def test_the_page_about_simulation_names_every_checker() -> None:
    with SimulatedCluster(1, brokers=1) as cluster:
        looking = [checker.name for checker in (*all_checkers(), *cluster_checkers(cluster, History()))]
    names = {*looking, *(checker.name for checker in end_checkers()), LIVENESS, WITHOUT_ONE, recovery_repeats.NAME}
    page = Path(__file__).parents[2].joinpath("docs/simulation.md").read_text()
    assert not {name for name in names if f"| {name} |" not in page}


# Recovery of copies.


@pytest.mark.slow
def test_recovery_of_a_copy_finds_what_is_there_and_leaves_the_original_alone() -> None:
    with SimulatedCluster(1, brokers=1) as cluster:
        make_topic(cluster, [1])
        produce(cluster, b"one")
        before = cluster.brokers[1].node.disk.operation_count
        assert list(recovery_violations(cluster.brokers[1], cluster.snapshot(), LOG_DIR)) == []
        assert cluster.brokers[1].node.disk.operation_count == before


@pytest.mark.slow
def test_recovery_that_finds_a_batch_nobody_wrote_is_told() -> None:
    with SimulatedCluster(1, brokers=1) as cluster:
        make_topic(cluster, [1])
        produce(cluster, b"one")
        without = cluster.snapshot()
        produce(cluster, b"two")
        (sentence, *_) = recovery_violations(cluster.brokers[1], without, LOG_DIR)
        assert sentence == f"broker 1 after a kill: {T0} has a batch at 1 that was never there"

"""Attempts at tasks fail after part of their output, or with all of it, or are late: one of each task counts."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.compatibility.processes import wait_until_gone
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import Driver, Ground, Query
from tests.pipeline.crash.script import PATIENCE_S, Act
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(600)]


def test_attempts_that_fail_leave_nothing(ground: Ground, driver: Driver, chance: SimulatedRandomness) -> None:
    queries = [ground.query(mode) for mode in POINTS]
    for query in queries:
        script = query.script
        script.plan("task 0 half done", Act.RAISE, passes=chance.below(2))
        script.plan("task 1 half done", Act.DIE, passes=chance.below(2))
        script.plan("task 0 ends", Act.DIE, passes=chance.below(2))
        script.plan("task 1 ends", Act.RAISE, passes=chance.below(2))
    driver.finish(*queries)
    ground.assert_counts(*queries)


def test_a_micro_batch_whose_tasks_fail_for_good_is_written_by_the_next_run(ground: Ground, driver: Driver) -> None:
    queries = [ground.query(mode) for mode in POINTS]
    for query in queries:
        query.script.plan("task 0 ends", Act.RAISE_ALWAYS)
    driver.start(*queries)
    for query in queries:
        assert "as planned" in (query.failure() or "")
        query.script.cancel("task 0 ends")
    driver.finish(*queries)
    ground.assert_counts(*queries)


@pytest.mark.parametrize(
    ("point", "wakes_late"),
    [
        ("task 0 half done", False),
        ("task 0 begins", True),
    ],
)
def test_a_task_that_outlives_its_driver_changes_nothing(
    ground: Ground, driver: Driver, tmp_path: Path, point: str, wakes_late: bool
) -> None:
    """Its worker goes on when the next driver has replayed the micro-batch, and is about to commit it, or has ended."""
    queries = [ground.query(mode) for mode in POINTS]
    zombies: dict[Query, int] = {}
    try:
        outlive(ground, driver, tmp_path, queries, zombies, point=point, wakes_late=wakes_late)
    finally:
        for pid in zombies.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    ground.assert_counts(*queries)


def outlive(
    ground: Ground,
    driver: Driver,
    home: Path,
    queries: list[Query],
    zombies: dict[Query, int],
    *,
    point: str,
    wakes_late: bool,
) -> None:
    """Let a task of each query outlive its driver until the next one is as far as is wanted; `zombies` gets their processes."""
    with Driver(home / "victim", master="local[8,4]") as victim:  # each that waits has a thread
        for query in queries:
            query.script.plan(point, Act.OUTLIVE, passes=1)
        victim.wait_ready().start(*queries)
        zombies.update({query: query.wait_at(point) for query in queries})
        victim.kill(spared=zombies.values())
    if not wakes_late:
        for query in queries:
            query.script.plan("before commit", Act.WAIT)
    if wakes_late:
        driver.finish(*queries)
    else:
        driver.start(*queries)
    for query in queries:
        if wakes_late:
            # The driver has ended, so that nobody but the late task can come there.
            query.script.plan("task 0 ends", Act.NOTE)
        else:
            query.wait_at("before commit")
        os.kill(zombies[query], 0)  # it is alive, or this would show nothing
        query.script.go_on(point)
        wait_until_gone(zombies[query], timeout_s=PATIENCE_S)
        if wakes_late:
            assert query.script.pid_at("task 0 ends") == zombies[query], f"the late task of {query.mode} did not go on"
        query.script.go_on("before commit")
    for query in queries:
        assert query.failure() is None
    ground.assert_counts(*queries)  # nothing is left open that only the next micro-batch would end
    ground.add_rows(10)
    driver.finish(*queries)

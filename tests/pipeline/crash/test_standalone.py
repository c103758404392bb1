"""On a cluster of Spark's own: executors are killed, their tasks go on later, and slow tasks are done twice at a time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import wait_until_gone
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import Driver, Ground
from tests.pipeline.crash.script import PATIENCE_S, Act
from tests.pipeline.crash.standalone import SETTINGS, Standalone, executor_of

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture
def cluster_driver(standalone: Standalone, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """Who asks for no speculation is sure that nobody ends its slow tasks because a copy was faster."""
    settings = {**SETTINGS, "spark.speculation": getattr(request, "param", "true")}
    with Driver(tmp_path / "driver", master=standalone.master, settings=settings) as started:
        yield started.wait_ready()


@pytest.mark.parametrize("cluster_driver", ["false"], ids=["no speculation"], indirect=True)
def test_a_task_that_outlives_its_executor_changes_nothing(ground: Ground, cluster_driver: Driver) -> None:
    point = "task 0 half done"
    queries = [ground.query(mode) for mode in POINTS]
    for query in queries:
        query.script.plan(point, Act.OUTLIVE, passes=1)
    cluster_driver.start(*queries)
    zombies = {query: query.wait_at(point) for query in queries}
    for executor in {executor_of(pid) for pid in zombies.values()}:
        os.kill(executor, signal.SIGKILL)
    for query in queries:
        assert query.failure() is None
        query.script.go_on(point)
        wait_until_gone(zombies[query], timeout_s=PATIENCE_S)
    ground.add_rows(10)  # what a late task has left open is cleared away with the next micro-batch
    cluster_driver.finish(*queries)
    ground.assert_counts(*queries)


def test_a_task_that_is_done_twice_at_a_time_counts_once(ground: Ground, cluster_driver: Driver) -> None:
    slow, fast = "task 0 half done", "task 0 ends"
    queries = [ground.query(mode) for mode in POINTS]
    for query in queries:
        query.script.plan(slow, Act.WAIT, passes=1)
        query.script.plan(fast, Act.NOTE, passes=1)
    cluster_driver.start(*queries)
    for query in queries:
        query.wait_at(slow)
    for query in queries:
        eventually(lambda query=query: query.script.has_been_at(fast), "a copy overtakes", timeout_s=PATIENCE_S)  # type: ignore[misc]
        query.script.go_on(slow)
    for query in queries:
        assert query.failure() is None
    ground.add_rows(10)
    cluster_driver.finish(*queries)
    ground.assert_counts(*queries)

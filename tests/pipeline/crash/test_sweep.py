"""The same, everywhere: every point of a commit, in every mode; and a schedule in which all kinds of deaths are mixed by a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import CONTROL, Driver, Ground, Query, drawn_points, kill_driver
from tests.pipeline.crash.script import Act
from tests.pipeline.hand import Hand
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(900)]

_TASK_POINTS = ("task 0 begins", "task 1 begins", "task 0 half done", "task 1 half done", "task 0 ends", "task 1 ends")


@pytest.fixture
def ground(hand: Hand, tmp_path: Path) -> Ground:
    return Ground(hand, tmp_path, row_count=60)


def test_a_driver_may_be_killed_anywhere_and_some_successors_too(
    ground: Ground, driver: Driver, chance: SimulatedRandomness, tmp_path: Path
) -> None:
    points = [(ground.query(mode), point) for mode, points in POINTS.items() for point in points]
    kill_driver(tmp_path / "first", points, chance)
    some = [query for query, _ in points if chance.below(3) == 0]
    kill_driver(
        tmp_path / "second", [(each, drawn_points(each.mode, chance)[chance.below(2)]) for each in some], chance
    )
    queries = [query for query, _ in points]
    driver.finish(*queries)
    ground.assert_counts(*queries)


def test_a_commit_may_fail_and_its_process_be_killed_everywhere(ground: Ground, driver: Driver) -> None:
    """Two queries of each mode, at every point in turn: one fails, which Spark answers by aborting the micro-batch; one dies."""
    acts = {ground.query(mode): act for mode in POINTS for act in (Act.RAISE, Act.DIE)}
    for query, act in acts.items():
        for point in POINTS[query.mode]:
            query.script.plan(point, act)
    driver.finish(*acts, restarts_max=max(map(len, POINTS.values())))
    for query in acts:
        assert [point for point in POINTS[query.mode] if not query.script.has_been_at(point)] == []
    ground.assert_counts(*acts)


def test_whatever_dies_nothing_is_lost_or_doubled(
    ground: Ground, driver: Driver, cluster: TidelogCluster, chance: SimulatedRandomness
) -> None:
    queries = [ground.query(mode, repartition=2) for mode in (*POINTS, "batch", "2pc")]
    for query in queries:
        _plan(query, chance.stream(query.sink))
    driver.start(*queries)
    for query in queries:
        query.wait_at("before commit")
    broker_id = 1 + chance.below(3)
    cluster.kill(broker_id)
    for query in queries:
        query.script.go_on("before commit")
    cluster.restart(broker_id)
    for query in queries:
        query.failure()
    driver.finish(*queries, restarts_max=8)
    ground.assert_counts(*queries)


def _plan(query: Query, chance: SimulatedRandomness) -> None:
    """Two tasks and three commits fail, or die; and one commit waits for the death of a broker."""
    query.script.plan("before commit", Act.WAIT)
    for _ in range(2):
        act = (Act.RAISE, Act.DIE)[chance.below(2)]
        query.script.plan(_TASK_POINTS[chance.below(len(_TASK_POINTS))], act, passes=chance.below(4))
    points = POINTS[query.mode][1:]
    if query.mode == CONTROL:
        query.script.plan("after commit", Act.DIE, passes=chance.below(3))
        return
    for _ in range(3):
        act = (Act.RAISE, Act.DIE, Act.DIE_SOON)[chance.below(3)]
        query.script.plan(
            points[chance.below(len(points))], act, passes=chance.below(3), delay_ms=chance.between(0.1, 20)
        )

"""A driver, or only its process that commits, is killed in the middle of a commit, and the query goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import CONTROL, EXACTLY_ONCE, Driver, Ground, drawn_points, kill_driver
from tests.pipeline.crash.script import Act
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_driver_killed_in_a_commit_loses_and_doubles_nothing(
    ground: Ground, driver: Driver, chance: SimulatedRandomness, tmp_path: Path
) -> None:
    points = [(ground.query(mode), drawn_points(mode, chance)[chance.below(2)]) for mode in POINTS]
    kill_driver(tmp_path / "victim", points, chance)
    queries = [query for query, _ in points]
    driver.finish(*queries)
    ground.assert_counts(*queries)


@pytest.mark.proof
def test_a_process_killed_while_it_decides_loses_and_doubles_nothing(
    ground: Ground, driver: Driver, chance: SimulatedRandomness
) -> None:
    queries = [ground.query(mode) for mode in (*EXACTLY_ONCE, CONTROL)]
    for query in queries:
        point = "before decide" if query.mode in EXACTLY_ONCE else "before commit"
        query.script.plan(point, Act.DIE_SOON, delay_ms=chance.between(0.1, 20), passes=chance.below(2))
    driver.finish(*queries)
    ground.assert_counts(*queries)

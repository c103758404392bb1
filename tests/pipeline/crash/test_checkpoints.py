"""A checkpoint is taken up under other circumstances than it was left: more tasks, two drivers, a long outage, more partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.crash.crashing import POINTS
from tests.pipeline.crash.rig import CONTROL, EXACTLY_ONCE, Driver, Ground, drawn_points, kill_driver
from tests.pipeline.crash.script import PATIENCE_S, Act
from tests.pipeline.sink.looking import open_transactions
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(600)]

_ANOTHER_DRIVER = (
    "another driver uses this checkpoint"  # that is how it is told where it is noticed before anything is sent
)


def test_a_replay_with_another_number_of_tasks_doubles_nothing(
    ground: Ground, driver: Driver, chance: SimulatedRandomness
) -> None:
    points = {ground.query(mode, repartition=2): point for mode in POINTS for point in drawn_points(mode, chance)}
    for query, point in points.items():
        query.script.plan(point, Act.DIE)
    driver.start(*points)
    for query in points:
        assert query.failure() is not None
        query.repartition = 3
    driver.finish(*points)
    ground.assert_counts(*points)


def test_a_query_with_a_new_checkpoint_writes_all_again_and_once(
    ground: Ground, driver: Driver, chance: SimulatedRandomness
) -> None:
    """A full refresh: the marker in the way is that of another query, of a micro-batch with a higher number."""
    first = [ground.query(mode, tag="first-", options={"sink.id": f"refreshed-{mode}"}) for mode in POINTS]
    again = [replace(query, home=query.home / "again", tag="again-", failures=[]) for query in first]
    for query in first + again:
        for point in drawn_points(query.mode, chance):
            query.script.plan(point, Act.DIE)
    driver.finish(*first)
    driver.finish(*again)
    ground.assert_counts(*first, *again)


def test_the_older_of_two_drivers_on_one_checkpoint_is_fenced(
    ground: Ground, driver: Driver, chance: SimulatedRandomness, tmp_path: Path
) -> None:
    points = {ground.query(mode): point for mode in POINTS for point in drawn_points(mode, chance)}
    for query, point in points.items():
        query.script.plan(point, Act.WAIT, passes=1)
    with Driver(tmp_path / "older") as older:
        older.wait_ready().start(*points)
        for query, point in points.items():
            query.wait_at(point)
        driver.finish(*points)
        for query, point in points.items():
            query.script.go_on(point)
        failures = {query: query.failure(run=1) for query in points}
    undecided = [query for query in points if query.mode in EXACTLY_ONCE and not is_decided(query.mode, points[query])]
    assert len(undecided) == len(EXACTLY_ONCE)
    for query in undecided:
        told = str(failures[query])
        assert f"another driver has taken over the sink id '{query.sink_id}'" in told or _ANOTHER_DRIVER in told
    ground.assert_counts(*points)


def test_a_transaction_that_times_out_during_an_outage_costs_nothing(
    ground: Ground, driver: Driver, chance: SimulatedRandomness, tmp_path: Path
) -> None:
    """What tasks have prepared stays however long nobody decides; what the driver itself had open is aborted by the brokers."""
    points = [
        (ground.query(mode, options={"kafka.transaction.timeout.ms": "5000"}), point)
        for mode, point in [
            ("batch", "in send_output"),
            ("batch", "after send_source_offsets"),
            ("2pc", "after send_source_offsets"),
            ("2pc", "after decide"),
            (CONTROL, "before commit"),
        ]
    ]
    kill_driver(tmp_path / "victim", points, chance)
    queries = [query for query, _ in points]
    with_own_open = {query.sink_id for query, point in points if point != "after decide"}
    eventually(
        lambda: with_own_open.isdisjoint(_open_ids(ground)), "what drivers left open times out", timeout_s=PATIENCE_S
    )
    for query in queries:
        if query.mode == "2pc":
            assert any(each.startswith(query.sink_id) for each in _open_ids(ground)), "what was prepared is gone"
    driver.finish(*queries)
    ground.assert_counts(*queries)


def test_topics_may_grow_while_a_query_runs(ground: Ground, driver: Driver, chance: SimulatedRandomness) -> None:
    queries = [ground.query(mode, runs_on=True) for mode in POINTS]
    for query in queries:
        query.script.plan("before commit", Act.WAIT, passes=1)
        for point in drawn_points(query.mode, chance)[1:]:
            query.script.plan(point, Act.DIE, passes=2)
    driver.start(*queries)
    for query in queries:
        query.wait_at("before commit")
        ground.hand.grow(query.sink, 5)
    ground.hand.grow(ground.source, 4)
    ground.add_rows(40, partition_count=4)
    for query in queries:
        query.script.go_on("before commit")
    for query in queries:
        assert query.failure() is not None
    driver.start(*queries)
    for query in queries:
        eventually(lambda query=query: not ground.lag(query), "the query has read all there is", timeout_s=PATIENCE_S)  # type: ignore[misc]
        query.stop()
        assert query.failure() is None
    ground.assert_counts(*queries)


def is_decided(mode: str, point: str) -> bool:
    return POINTS[mode].index(point) >= POINTS[mode].index("after decide")


def _open_ids(ground: Ground) -> set[str]:
    return {each.transactional_id for each in open_transactions(ground.hand.bootstrap)}

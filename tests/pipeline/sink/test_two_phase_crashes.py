"""A driver dies at any point of a two-phase commit, and the next one makes the micro-batch count once, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pipeline.sink.looking import ask
from tests.pipeline.sink.two_phase_rig import DECIDED_AT, POINTS, Query, drive, expected, rows, swept
from tidelog.client import Admin
from tidelog.model import ErrorCode
from tidelog.pipeline.sink.driver_client import forget_driver_client
from tidelog.pipeline.sink.ledger import marker_group
from tidelog.pipeline.sink.modes import mode_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WITH_MANIFEST = [point for point in POINTS if "manifest" in point or "decide" in point or "finish" in point]


def is_decided(point: str) -> bool:
    return POINTS.index(point) >= DECIDED_AT


@pytest.mark.parametrize("point", swept(POINTS))
def test_a_replay_after_a_death_makes_every_row_count_once(query: Query, point: str) -> None:
    assert drive(query, "commit", query.write(0, run="a"), 0) == "done"
    assert drive(query, "commit", query.write(1, run="a"), 1, dies=point) == "died"
    messages = query.write(1, run="b")
    assert [message.prepared is None for message in messages] == [is_decided(point)] * 2
    assert drive(query, "commit", messages, 1) == "done"
    assert query.committed_values() == expected(range(2))
    assert (query.manifests(), query.position()) == ([], 2)
    assert drive(query, "commit", query.write(2, run="b"), 2) == "done"
    assert query.committed_values() == expected(range(3))


@pytest.mark.parametrize("point", swept(POINTS))
def test_aborting_after_a_death_undoes_nothing_that_is_decided_and_leaves_nothing_open(
    query: Query, point: str
) -> None:
    assert drive(query, "commit", query.write(0, run="a"), 0, dies=point) == "died"
    query.write(0, run="b", attempt=3)
    assert drive(query, "abort", [None, None], 0) == "done"
    decided = range(1) if is_decided(point) else range(0)
    assert query.committed_values() == expected(decided)
    assert (query.manifests(), query.position()) == ([], 1 if is_decided(point) else -1)


@pytest.mark.parametrize("point", swept(WITH_MANIFEST))
@pytest.mark.parametrize("call", ["commit", "abort"])
def test_what_a_second_driver_adopted_before_it_died_is_ended_by_a_third(query: Query, point: str, call: str) -> None:
    messages = query.write(0, run="a")
    assert drive(query, "commit", messages, 0, dies=point) == "died"
    assert drive(query, "abort", [None, None], 0, dies="adopted one") == "died"
    assert drive(query, call, query.write(0, run="c"), 0) == "done"
    is_there = call == "commit" or is_decided(point)
    assert query.committed_values() == expected(range(1) if is_there else range(0))
    assert query.manifests() == []


def test_a_decision_that_brokers_have_forgotten_is_carried_out_all_the_same(query: Query) -> None:
    assert drive(query, "commit", query.write(0, run="a"), 0, dies="after confirm") == "died"
    marker = marker_group(query.sink_id)

    async def forget(admin: Admin) -> dict[str, ErrorCode]:
        return await admin.groups.delete_groups([marker])

    assert ask(query.hand.bootstrap, forget) == {marker: ErrorCode.NONE}
    assert drive(query, "abort", [None, None], 0) == "done"
    assert query.committed_values() == expected(range(1))


@pytest.mark.parametrize("mode", ["batch", "at-least-once"])
@pytest.mark.parametrize("point", ["before take_over", "after write_manifest", "after decide"])
def test_a_query_whose_mode_is_changed_after_a_death_ends_what_it_left(query: Query, point: str, mode: str) -> None:
    assert drive(query, "commit", query.write(0, run="a"), 0, dies=point) == "died"
    assert query.open_ids() != []
    changed = replace(query, options=(("commit.mode", mode),))
    driver = mode_of(changed.settings)
    tasks = [query.task(0, part, run="b") for part in range(2)]
    driver.commit([driver.task_write(rows(0, task.partition), task) for task in tasks], 0)
    forget_driver_client(changed.settings)
    found = query.committed_values()
    assert found == sorted(expected([0]) * (2 if mode == "at-least-once" and is_decided(point) else 1))
    assert not (query.checkpoint / "sink-manifest").exists()

"""When a broker that died is started again."""

from __future__ import annotations

from tidelog.cli.restarts import HEALTHY_AFTER_MS, Restarts


def test_a_broker_that_served_for_a_while_is_back_after_two_seconds_however_often_it_is_killed() -> None:
    restarts = Restarts()
    now_ms = 0.0
    for _ in range(5):
        restarts.on_ready(now_ms)
        now_ms += HEALTHY_AFTER_MS
        assert restarts.on_death(now_ms) == 2000


def test_one_that_dies_of_its_start_is_tried_ever_more_slowly_up_to_a_bound() -> None:
    restarts = Restarts()
    pauses = [restarts.on_death(now_ms) for now_ms in range(8)]
    assert pauses == [2000, 2000 * 2, 2000 * 4, 2000 * 8, 30000, 30000, 30000, 30000]


def test_serving_for_a_while_makes_up_for_a_bad_start() -> None:
    restarts = Restarts()
    restarts.on_death(0)
    restarts.on_death(1)
    restarts.on_ready(2)
    assert restarts.on_death(2 + HEALTHY_AFTER_MS) == 2000
    assert restarts.on_death(3 + HEALTHY_AFTER_MS) == 2000

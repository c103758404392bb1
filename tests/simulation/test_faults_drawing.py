"""Plans that seeds draw: the same for the same seed everywhere, all of the menu among them, and nothing that no promise survives."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tidelog.config.topic import TOPIC_SETTINGS
from tidelog.simulation.faults import MENU, FaultPlan
from tidelog.simulation.faults.drawing import draw_plan
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.topics import SAFE_CONFIGS, UNCLEAN_CONFIGS

COUNT = 300
DIGEST = """
import hashlib
from tidelog.simulation.faults.drawing import draw_plan
from tidelog.simulation.randomness import SimulatedRandomness
plans = [draw_plan(SimulatedRandomness(seed), seconds=20).to_json() for seed in range(20)]
print(hashlib.sha256("".join(plans).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def plans() -> list[FaultPlan]:
    return [draw_plan(SimulatedRandomness(seed), seconds=20) for seed in range(COUNT)]


def test_equal_seeds_draw_equal_plans_and_others_do_not(plans: list[FaultPlan]) -> None:
    assert [draw_plan(SimulatedRandomness(seed), seconds=20) for seed in range(COUNT)] == plans
    assert len({plan.to_json() for plan in plans}) == COUNT


def test_what_was_drawn_before_does_not_shift_the_plan() -> None:
    used = SimulatedRandomness(7)
    used.bytes(100)
    assert draw_plan(used, seconds=20) == draw_plan(SimulatedRandomness(7), seconds=20)


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "1234"])
def test_the_seed_of_hashes_does_not_reach_the_plan(plans: list[FaultPlan], hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    told = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    written = "".join(plan.to_json() for plan in plans[:20])
    assert told.stdout.strip() == hashlib.sha256(written.encode()).hexdigest()


def test_every_kind_of_the_menu_is_drawn(plans: list[FaultPlan]) -> None:
    drawn = {fault.kind for plan in plans for fault in plan.faults}
    assert [kind for kind in MENU if kind not in drawn] == []


def test_every_plan_is_one_that_a_file_may_hold(plans: list[FaultPlan]) -> None:
    for plan in plans:
        assert FaultPlan.from_json(plan.to_json()) == plan


def test_seeds_differ_in_their_clusters(plans: list[FaultPlan]) -> None:
    assert sorted({plan.brokers for plan in plans}) == [3, 4, 5]
    assert sum(plan.brokers == 3 for plan in plans) > COUNT / 2
    assert {plan.is_flushed for plan in plans} == {True, False}
    assert all(2_000 <= plan.session_timeout_ms <= 6_000 for plan in plans)
    assert all(1_000 <= int(plan.settings["replica.lag.time.max.ms"]) <= 5_000 for plan in plans)
    assert all(plan.settings["unclean.leader.election.enable"] == "false" for plan in plans)
    assert all(plan.settings["tidelog.registry.session.timeout.ms"] == str(plan.session_timeout_ms) for plan in plans)


def test_no_topic_of_the_load_says_again_what_a_seed_draws_for_the_brokers(plans: list[FaultPlan]) -> None:
    drawn = {name for name in plans[0].settings if len({plan.settings.get(name) for plan in plans}) > 1}
    assert "log.segment.bytes" in drawn
    said = {TOPIC_SETTINGS[name].synonym for name in (*SAFE_CONFIGS, *UNCLEAN_CONFIGS)}
    assert drawn & said == set()


def test_swarms_leave_kinds_out(plans: list[FaultPlan]) -> None:
    families = [{fault.means.family for fault in plan.faults} for plan in plans]
    assert any(len(some) == 1 for some in families)
    assert any(len(some) >= 4 for some in families)


def test_faults_are_many_enough_to_matter_and_few_enough_to_understand(plans: list[FaultPlan]) -> None:
    assert all(4 <= len(plan.faults) <= 16 for plan in plans)
    for fault in (fault for plan in plans for fault in plan.faults):
        assert 0 < fault.at_ms < 20_000
        assert fault.for_ms == 0 or 50 <= fault.for_ms <= 8_000


def test_few_faults_begin_at_the_end(plans: list[FaultPlan]) -> None:
    faults = [fault for plan in plans for fault in plan.faults]
    assert sum(fault.at_ms >= 18_000 for fault in faults) < len(faults) / 10


def test_every_plan_begins_with_a_fault_that_will_act(plans: list[FaultPlan]) -> None:
    assert {plan.faults[0].kind for plan in plans} == {"kill", "bounce", "pause", "isolate"}


def test_everybody_loses_power_at_once_only_where_messages_are_flushed(plans: list[FaultPlan]) -> None:
    cut = [plan for plan in plans if any(fault.kind == "power-cut-all" for fault in plan.faults)]
    assert cut
    assert all(plan.is_flushed for plan in cut)


def test_a_longer_run_has_more_faults_over_all_its_time() -> None:
    long = [draw_plan(SimulatedRandomness(seed), seconds=100) for seed in range(20)]
    short = [draw_plan(SimulatedRandomness(seed), seconds=2) for seed in range(20)]
    assert all(max(fault.at_ms for fault in plan.faults) > 50_000 for plan in long)
    assert all(fault.at_ms < 2_000 for plan in short for fault in plan.faults)


def test_many_faults_come_while_another_victim_catches_up(plans: list[FaultPlan]) -> None:
    faults = [(plan, fault) for plan in plans for fault in plan.faults]
    in_a_wake = [
        fault
        for plan, fault in faults
        if any(other.for_ms and 0 <= fault.at_ms - other.at_ms - other.for_ms < 600 for other in plan.faults)
    ]
    assert len(in_a_wake) > len(faults) // 3

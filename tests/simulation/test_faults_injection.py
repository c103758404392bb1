"""Every kind of the menu does to a cluster what its word says, is counted once, and is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.simulation.clusters import SAFE, T0, Load, end_well, kills, make_topic
from tidelog.simulation.cluster import SimulatedBroker, SimulatedCluster
from tidelog.simulation.failures import SimulationFailed
from tidelog.simulation.faults import MENU, Doses, Fault, FaultPlan, Lasting
from tidelog.simulation.faults.injector import ACTS, Injector
from tidelog.simulation.registry_session import RegistryTiming

FLUSHED = {"log.flush.interval.messages": "1"}
SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "auto.leader.rebalance.enable": "false",
    "tidelog.registry.session.timeout.ms": "3000",
    **SAFE,
}
TIMING = RegistryTiming(session_timeout_ms=3_000)
FOR_MS = 1_500
ONE = ("broker-1",)
PAIR = ("broker-1", "broker-2")


class Stage:
    """A cluster under load, and one who does things to it."""

    def __init__(self, cluster: SimulatedCluster, plan: FaultPlan) -> None:
        self.cluster = cluster
        self.doses = Doses()
        self.injector = Injector(cluster, plan, self.doses)
        self.load = Load(cluster, request_timeout_ms="2000")
        self.load.until_more(20)
        self._task = cluster.world.loop.create_task(self.injector.run())

    def pass_ms(self, duration_ms: float) -> None:
        self.cluster.world.run_for_ms(duration_ms)

    @property
    def broker(self) -> SimulatedBroker:
        return self.cluster.brokers[1]

    def traced(self, sentence: str) -> int:
        return sum(sentence in line for line in self.cluster.world.trace.lines)

    def is_cut(self, source: str, target: str) -> bool:
        return self.cluster.world.fabric.link(source, target).is_cut

    def end(self) -> None:
        self.injector.heal()
        end_well(self.cluster, self.load)
        assert all(broker.is_ready for broker in self.cluster.brokers.values())


def staged(
    story: Callable[[Stage], None], *faults: Fault, settings: Mapping[str, str] | None = None, seed: int = 1
) -> None:
    given = {**SETTINGS, **(settings or {})}
    plan = FaultPlan(brokers=3, settings=given, session_timeout_ms=3_000, faults=faults)
    with SimulatedCluster(seed, brokers=3, settings=given, timing=TIMING) as cluster:
        make_topic(cluster, (1, 2, 3), {"segment.bytes": "4000"})
        stage = Stage(cluster, plan)
        story(stage)
        stage.end()


class Case(NamedTuple):
    kind: str
    targets: tuple[str, ...]
    amount: float
    is_so: Callable[[Stage], bool]  # while it lasts, or after a moment


def resets(stage: Stage) -> bool:
    return stage.cluster.world.fabric.reset_count > 0


CASES = (
    Case("kill", ONE, 0, lambda s: not s.broker.node.is_running),
    Case("kill-all", (), 0, lambda s: not any(each.node.is_running for each in s.cluster.brokers.values())),
    Case("power-cut", ONE, 0, lambda s: not s.broker.node.host.is_up),
    Case("power-cut-all", (), 0, lambda s: not any(each.node.host.is_up for each in s.cluster.brokers.values())),
    Case("pause", ONE, 0, lambda s: s.broker.node.process.is_paused),
    Case("clean-restart", ONE, 0, lambda s: s.traced("broker stopping") == 1),
    Case("partition", ("broker-1", "client"), 0, lambda s: s.is_cut("broker-1", "broker-2") and not s.is_cut("broker-1", "client")),
    Case("isolate", ONE, 0, lambda s: s.is_cut("broker-1", "client") and s.is_cut("broker-3", "broker-1")),
    Case("one-way-cut", PAIR, 0, lambda s: s.is_cut(*PAIR) and not s.is_cut("broker-2", "broker-1")),
    Case("partial-cut", PAIR, 0, lambda s: s.is_cut(*PAIR) and s.is_cut("broker-2", "broker-1") and not s.is_cut("broker-1", "broker-3")),
    Case("client-cut", ONE, 0, lambda s: s.is_cut("client", "broker-1") and not s.is_cut(*PAIR)),
    Case("slow-link", PAIR, 50, lambda s: s.cluster.world.fabric.link(*PAIR).latency_ms == (25, 50)),
    Case("thin-link", PAIR, 500, lambda s: s.cluster.world.fabric.link(*PAIR).bytes_per_ms == 500),
    Case("flaky", PAIR, 0.2, resets),
    Case("lossy", PAIR, 0.2, lambda s: s.cluster.world.fabric.link(*PAIR).loss_chance == 0.2),
    Case("flapping", PAIR, 2_000, lambda s: s.is_cut(*PAIR)),
    Case("disk-slow", ONE, 80, lambda s: s.broker.node.disk.thread_latency_ms == (0.2, 80)),
    Case("disk-full", ONE, 100, lambda s: s.broker.node.disk.refused_count > 0),
    Case("write-error", ONE, 2, lambda s: not s.broker.node.is_running),
    Case("fsync-error", ONE, 1, lambda s: not s.broker.node.is_running),
    Case("wipe", ONE, 0, lambda s: s.broker.node.disk.look_at("*") == {}),
    Case("registry-away", (), 0, lambda s: not s.cluster.store.is_available),
    Case("depose", (), 0, lambda s: sum(each.is_controller for each in s.cluster.brokers.values()) == 2),
    Case("late-watches", (), 700, lambda s: s.cluster.store.timing.watch_delay_ms_max == 700),
    Case("slow-registry", (), 70, lambda s: s.cluster.store.timing.latency_ms_max == 70),
    Case("bounce", ONE, 0, lambda s: s.broker.node.incarnation == 2),
    Case("reset", PAIR, 0, resets),
    Case("session-expire", ONE, 0, lambda s: s.traced("broker registered") == 4),
    Case("clock-jump", ONE, 60_000, lambda s: s.broker.node.clock.wall_ms() - s.cluster.brokers[2].node.clock.wall_ms() == 60_000),
    Case("clock-drift", ONE, 0.01, lambda s: s.broker.node.clock.wall_ms() > s.cluster.brokers[2].node.clock.wall_ms()),
)  # fmt: skip


@kills
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_a_fault_has_its_effect_is_counted_once_and_undone(case: Case) -> None:
    is_moment = MENU[case.kind].lasting is Lasting.MOMENT

    def story(stage: Stage) -> None:
        assert not case.is_so(stage)
        stage.pass_ms(700)
        assert case.is_so(stage)
        stage.pass_ms(FOR_MS)
        assert stage.doses.injected == stage.doses.drawn == {case.kind: 1}
        assert stage.traced(f'fault begins kind="{case.kind}"') + stage.traced(f"fault begins kind={case.kind}") == 1
        assert stage.traced("fault ends") == (0 if is_moment else 1)
        stage.load.until_more(20)
        if not is_moment and case.kind not in ("clean-restart", "flaky", "disk-full", "clock-drift"):
            assert not case.is_so(stage)
        assert stage.traced("fault begins") == 1

    staged(
        story,
        Fault(at_ms=200, kind=case.kind, targets=case.targets, amount=case.amount, for_ms=0 if is_moment else FOR_MS),
        settings=FLUSHED,
    )


def test_every_kind_of_the_menu_has_somebody_who_performs_it() -> None:
    assert sorted(ACTS) == sorted(MENU)


# What shows itself later, or not in the state of the world.


@kills
@pytest.mark.slow
def test_a_stalled_disk_holds_acknowledgements_back() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(250)
        before = stage.load.acknowledged.count
        stage.pass_ms(1_000)
        assert stage.load.acknowledged.count - before <= 10
        stage.load.until_more(20, within_ms=5_000)
        assert stage.doses.injected == {"disk-stall": 1}

    staged(story, Fault(at_ms=200, kind="disk-stall", targets=ONE, for_ms=FOR_MS), settings=FLUSHED)


@kills
@pytest.mark.slow
def test_a_broker_whose_reads_fail_ends_and_is_rebooted() -> None:
    def story(stage: Stage) -> None:
        stage.cluster.until(lambda: not stage.broker.node.is_running, "a read has failed", within_ms=FOR_MS)
        stage.cluster.until(lambda: stage.broker.is_ready, "it serves again")
        assert stage.doses.injected == {"read-error": 1}

    staged(story, Fault(at_ms=200, kind="read-error", targets=ONE, for_ms=FOR_MS, amount=1))


@kills
@pytest.mark.slow
def test_an_error_that_no_operation_met_is_no_dose() -> None:
    def story(stage: Stage) -> None:
        life = stage.broker.node.incarnation
        stage.pass_ms(700)
        assert stage.doses.drawn == {"read-error": 1}
        assert stage.doses.injected == {}
        assert stage.broker.node.incarnation == life

    staged(story, Fault(at_ms=10, kind="read-error", targets=("broker-3",), for_ms=20, amount=1))


@kills
@pytest.mark.slow
def test_a_bit_turns_also_in_a_log_that_a_power_cut_has_torn() -> None:
    def story(stage: Stage) -> None:
        disk = stage.broker.node.disk
        stage.broker.power_cut()
        for path in disk.look_at("*.log"):
            file = disk.peek(path)
            assert file is not None
            file.content += bytes(100)
        assert stage.injector.begin(Fault(at_ms=0, kind="bit-flip", targets=ONE, amount=0.0))
        stage.injector.heal()

    staged(story)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_rotten_disk_is_replaced_at_the_end(share: float) -> None:
    def story(stage: Stage) -> None:
        before = stage.broker.node.disk.look_at("*.log")
        assert stage.injector.begin(Fault(at_ms=0, kind="bit-flip", targets=ONE, amount=share))
        after = stage.broker.node.disk.look_at("*.log")
        [(old, new)] = [(before[path], after[path]) for path in before if before[path] != after[path]]
        assert sum((a ^ b).bit_count() for a, b in zip(old, new, strict=True)) == 1
        stage.pass_ms(500)
        stage.injector.heal()
        assert stage.doses.injected == {"bit-flip": 1}
        assert stage.broker.node.disk.boot_id() != "boot-0"

    staged(story)


@kills
@pytest.mark.slow
def test_a_registry_cut_beyond_the_session_ends_it_and_a_short_one_does_not() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(1_500)
        assert stage.traced("broker registered") == 3
        stage.pass_ms(6_000)
        assert len(stage.cluster.state(T0).isr) == 2
        stage.pass_ms(4_000)
        assert stage.traced("broker registered") == 4
        assert stage.doses.injected == {"registry-cut": 2}

    staged(
        story,
        Fault(at_ms=100, kind="registry-cut", targets=ONE, for_ms=1_000),
        Fault(at_ms=2_000, kind="registry-cut", targets=ONE, for_ms=6_000),
    )


@kills
@pytest.mark.slow
def test_a_registry_that_leaves_after_writes_comes_back() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(300)
        assert stage.cluster.store.is_available
        stage.broker.bounce()
        stage.pass_ms(700)
        assert not stage.cluster.store.is_available
        stage.pass_ms(1_500)
        assert stage.cluster.store.is_available
        assert stage.doses.injected == {"cut-after-writes": 1}

    staged(story, Fault(at_ms=200, kind="cut-after-writes", for_ms=2_000))


@kills
@pytest.mark.slow
def test_a_registry_that_nobody_wrote_to_was_not_cut() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(1_000)
        assert stage.cluster.store.is_available
        assert stage.doses.injected == {}

    staged(story, Fault(at_ms=200, kind="cut-after-writes", for_ms=500, amount=500))


@kills
@pytest.mark.slow
def test_a_link_that_flaps_goes_down_and_up_until_it_is_undone() -> None:
    def story(stage: Stage) -> None:
        seen = []
        for _ in range(40):
            stage.pass_ms(50)
            seen.append(stage.is_cut(*PAIR))
        changes = sum(one != other for one, other in pairwise(seen))
        assert changes >= 6
        assert not any(seen[35:])

    staged(story, Fault(at_ms=100, kind="flapping", targets=PAIR, for_ms=1_500, amount=400))


@kills
@pytest.mark.slow
def test_the_side_that_names_the_registry_keeps_it() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(5_500)
        state = stage.cluster.state(T0)
        assert (state.leader, sorted(state.isr)) == (2, [2, 3])
        assert stage.is_cut("broker-1", "broker-2")
        assert not stage.is_cut("client", "broker-2")

    staged(
        story,
        Fault(at_ms=100, kind="partition", targets=("broker-2", "broker-3", "client", "registry"), for_ms=6_000),
    )


# Several faults at once.


@kills
@pytest.mark.slow
def test_a_fault_that_meets_nothing_is_drawn_but_not_injected() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(1_200)
        assert stage.doses.drawn == {"kill": 2, "pause": 1, "bounce": 1}
        assert stage.doses.injected == {"kill": 1}
        assert (stage.doses.drawn_total, stage.doses.injected_total) == (4, 1)
        assert stage.traced("fault left out") == 3

    kinds = [("kill", 900), ("kill", 100), ("pause", 100), ("bounce", 0)]
    faults = [Fault(at_ms=100 + n, kind=kind, targets=ONE, for_ms=ms) for n, (kind, ms) in enumerate(kinds)]
    staged(story, *faults)


@kills
@pytest.mark.slow
def test_the_end_of_one_cut_does_not_mend_another() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(700)
        assert stage.is_cut(*PAIR)
        stage.pass_ms(600)
        assert not stage.is_cut(*PAIR)

    staged(
        story,
        Fault(at_ms=100, kind="isolate", targets=ONE, for_ms=300),
        Fault(at_ms=200, kind="one-way-cut", targets=PAIR, for_ms=1_000),
        Fault(at_ms=250, kind="slow-link", targets=PAIR, for_ms=100, amount=40),
    )


@kills
@pytest.mark.slow
def test_a_fault_without_an_end_lasts_until_everything_is_healed() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(10_000)
        assert not stage.broker.node.is_running
        assert stage.is_cut("broker-2", "client")
        assert stage.cluster.brokers[3].node.process.is_paused
        assert not stage.cluster.store.is_available
        stage.injector.heal()
        assert stage.broker.node.is_running
        assert not stage.is_cut("broker-2", "client")
        assert not stage.cluster.brokers[3].node.process.is_paused
        assert stage.cluster.store.is_available

    staged(
        story,
        Fault(at_ms=100, kind="kill", targets=ONE),
        Fault(at_ms=200, kind="client-cut", targets=("broker-2",)),
        Fault(at_ms=300, kind="pause", targets=("broker-3",)),
        Fault(at_ms=400, kind="registry-away"),
    )


@kills
@pytest.mark.slow
def test_healing_ends_the_plan() -> None:
    def story(stage: Stage) -> None:
        stage.injector.heal()
        stage.pass_ms(2_000)
        assert stage.doses.injected == {}

    staged(story, Fault(at_ms=500, kind="kill", targets=ONE, for_ms=100))


def test_a_broker_that_ends_without_an_excuse_fails_the_run() -> None:
    def story(stage: Stage) -> None:
        stage.broker.node.disk.faults.make_read_only("/data")
        stage.pass_ms(1_000)

    with pytest.raises(SimulationFailed, match="every log directory has failed"):
        staged(story)


# The damage rule.

CUT = ("power-cut", 300, 0.0)
FLIP = ("bit-flip", 300, 0.5)
WIPE = ("wipe", 300, 0.0)


@kills
@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(CUT, CUT), (FLIP, WIPE), (WIPE, CUT)])
def test_a_second_broker_is_not_damaged_before_the_first_is_whole(
    first: tuple[str, int, float], second: tuple[str, int, float]
) -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(900)
        assert stage.doses.injected_total == 1
        stage.cluster.until(lambda: stage.doses.injected_total == 2, "the second one too, once the first is whole")

    times = [(100, "broker-1", first), (500, "broker-2", second), (9_000, "broker-3", second)]
    faults = [
        Fault(at_ms=at_ms, kind=kind, targets=(name,), for_ms=ms, amount=amount)
        for at_ms, name, (kind, ms, amount) in times
    ]
    staged(story, *faults)


@kills
@pytest.mark.slow
def test_everybody_goes_dark_only_if_messages_are_flushed() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(500)
        assert stage.doses.injected == {}

    staged(story, Fault(at_ms=100, kind="power-cut-all", for_ms=100))


@kills
@pytest.mark.slow
def test_power_cuts_may_overlap_if_messages_are_flushed() -> None:
    def story(stage: Stage) -> None:
        stage.pass_ms(700)
        assert stage.doses.injected == {"power-cut": 2}

    faults = [
        Fault(at_ms=100 * number, kind="power-cut", targets=(f"broker-{number}",), for_ms=300) for number in (1, 2)
    ]
    staged(story, *faults, settings=FLUSHED)

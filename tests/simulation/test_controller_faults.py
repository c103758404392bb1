"""Controllers and the registry under faults, row by row of the fault matrix (C), and the network's rows (N)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.clusters import SAFE, T0, Load, end_well, heal, kills, make_topic, produce
from tests.simulation.workload import properties
from tidelog.broker import Broker
from tidelog.client import Admin, ClientConfig, NewTopic
from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.service import BrokerIdTaken
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.links import NetworkFaults

QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}
REPLICAS = (1, 2, 3)


def three_brokers(seed: int, **settings: str) -> SimulatedCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(seed, brokers=3, settings={**QUICK, **named})


def until_elected_after(cluster: SimulatedCluster, epoch: int) -> None:
    cluster.until(lambda: controller_epoch(cluster) > epoch, "another controller is elected")


def controller_epoch(cluster: SimulatedCluster) -> int:
    node = cluster.store.tree.peek(layout.CONTROLLER_EPOCH)
    return 0 if node is None else layout.decode_controller_epoch(node)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_c01_a_controller_that_slept_through_its_successors_election_changes_nothing(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        zombie, epoch = cluster.controller, controller_epoch(cluster)
        assert zombie is not None
        zombie.pause()
        until_elected_after(cluster, epoch)
        load.until_more()
        zombie.resume()
        cluster.until(lambda: not zombie.is_controller, "it learns that its reign is over")
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_controller_has_a_successor_and_the_load_goes_on(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for _ in range(3):
            load.until_more()
            controller, epoch = cluster.controller, controller_epoch(cluster)
            assert controller is not None
            controller.kill()
            until_elected_after(cluster, epoch)
            load.until_more()
            controller.restart()
            cluster.until_ready()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_c02_a_broker_that_loses_the_registry_for_a_moment_keeps_its_role_and_epoch() -> None:
    with three_brokers(2) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        registered = cluster.store.tree.peek(layout.broker_path(1))
        state = cluster.state(T0)
        cluster.store.cut("broker-1")
        cluster.world.run_for_ms(3_000)
        load.until_more()
        cluster.store.heal("broker-1")
        cluster.world.run_for_ms(3_000)
        again = cluster.store.tree.peek(layout.broker_path(1))
        assert registered is not None
        assert again is not None
        assert again.czxid == registered.czxid
        assert cluster.state(T0).leader_epoch == state.leader_epoch
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_c02_a_broker_that_loses_the_registry_for_too_long_comes_back_as_a_new_one(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        registered = cluster.store.tree.peek(layout.broker_path(1))
        assert registered is not None
        cluster.store.cut("broker-1")
        cluster.until(lambda: cluster.state(T0).leader != 1, "another leads")
        load.until_more()
        cluster.store.heal("broker-1")

        def is_new() -> bool:
            node = cluster.store.tree.peek(layout.broker_path(1))
            return node is not None and node.czxid > registered.czxid

        cluster.until(is_new, "it has registered again")
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_load_goes_on_while_the_registry_is_away(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.store.is_available = False
        load.until_more(50)
        cluster.world.run_for_ms(20_000)
        load.until_more(50)
        cluster.store.heal()
        load.until_more()
        end_well(cluster, load)


@kills
def test_c06_a_second_process_with_a_broker_id_in_use_is_refused() -> None:
    with three_brokers(6) as cluster:
        make_topic(cluster, REPLICAS)
        imposter = cluster.world.node("imposter")

        async def start(runtime: Runtime) -> str:
            config = BrokerConfig.from_properties(
                {"node.id": "1", "listeners": "PLAINTEXT://imposter:9092", "log.dirs": "/data"}
            )
            try:
                await Broker(config, runtime, cluster.store.handle("imposter")).run(on_ready=lambda _: None)
            except BrokerIdTaken as refused:
                return str(refused)
            return "served"

        task = imposter.spawn(start(imposter.runtime))

        async def outcome() -> str:
            return await task

        assert cluster.world.run(outcome()) == "broker id 1 is registered by another live broker"
        assert produce(cluster, b"nobody was harmed") == 0


@kills
@pytest.mark.parametrize("after_ms", [5, 10, 15])
def test_a_broker_whose_session_lapses_while_it_starts_opens_another(after_ms: int) -> None:
    with three_brokers(5) as cluster:
        make_topic(cluster, REPLICAS)
        cluster.brokers[2].kill()
        cluster.brokers[2].restart()
        cluster.world.run_for_ms(after_ms)
        cluster.brokers[2].pause()
        cluster.world.run_for_ms(30_000)
        cluster.brokers[2].resume()
        cluster.until(lambda: cluster.brokers[2].is_ready, "it serves")
        heal(cluster)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("writes", range(7))
def test_c07_a_controller_that_dies_between_two_writes_leaves_nothing_half_done(writes: int) -> None:
    with three_brokers(7) as cluster:
        make_topic(cluster, REPLICAS)

        async def churn(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                for number in range(3):
                    await admin.create_topics([NewTopic(name=f"n{number}", partition_count=2, replication_factor=3)])
                    await admin.delete_topics([f"n{number}"])

        task = cluster.client.spawn(churn(cluster.client.runtime))
        controller = cluster.controller
        assert controller is not None
        before = cluster.store.tree.zxid
        cluster.until(lambda: cluster.store.tree.zxid >= before + writes, "so many writes are done")
        controller.kill()
        cluster.world.run_for_ms(2_000)
        controller.restart()

        async def over() -> None:
            await task

        cluster.world.run(over())
        heal(cluster)
        for topic in cluster.store.tree.peek_children(layout.TOPICS):
            until_led(cluster, TopicPartition(topic, 0))
        assert cluster.store.tree.peek_children(layout.DELETIONS) == []


def until_led(cluster: SimulatedCluster, topic_partition: TopicPartition) -> None:
    cluster.until(lambda: cluster.state(topic_partition).has_leader, f"{topic_partition} has a leader")


def cut_each(faults: NetworkFaults, ways: list[tuple[str, str]]) -> None:
    for source, target in ways:
        faults.cut(source, target)


CUTS: dict[str, Callable[[NetworkFaults], object]] = {
    "n01 both ways": lambda faults: faults.isolate("broker-1"),
    "n02 to it": lambda faults: cut_each(faults, [("broker-2", "broker-1"), ("broker-3", "broker-1")]),
    "n02 from it": lambda faults: cut_each(faults, [("broker-1", "broker-2"), ("broker-1", "broker-3")]),
    "n03 from one peer": lambda faults: faults.partition(["broker-1"], ["broker-2"]),
}


@kills
@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_network_costs_nothing_that_was_acknowledged(cut: str) -> None:
    """N01, N02, N03."""
    with three_brokers(3) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for _ in range(2):
            load.until_more()
            CUTS[cut](cluster.world.fabric.faults)
            cluster.world.run_for_ms(8_000)
            cluster.world.fabric.faults.heal()
            load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_n04_a_link_that_comes_and_goes_ends_in_a_whole_cluster() -> None:
    with three_brokers(4) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for _ in range(30):
            cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])
            cluster.world.run_for_ms(1_000)
            cluster.world.fabric.faults.heal()
            cluster.world.run_for_ms(1_000)
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_n05_a_peer_that_lost_power_without_a_word_is_given_up(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.brokers[1].power_cut()
        load.until_more()
        cluster.brokers[1].restart()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_n09_a_leader_stopped_for_half_a_minute_is_a_zombie_that_harms_nobody(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        leader = cluster.leader(T0)
        leader.pause()
        cluster.world.run_for_ms(30_000)
        load.until_more()
        leader.resume()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_n10_all_brokers_are_killed_at_once_and_nothing_is_lost(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        for broker in cluster.brokers.values():
            broker.kill()
        cluster.world.run_for_ms(1_000)
        for broker in cluster.brokers.values():
            broker.restart()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_n10_a_rolling_restart_never_stops_the_load() -> None:
    with three_brokers(10) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        for broker in list(cluster.brokers.values()):
            cluster.world.run(broker.stop())
            load.until_more(within_ms=18_000)
            broker.restart()
            cluster.until(lambda: sorted(cluster.state(T0).isr) == [1, 2, 3], "it is in sync again")
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_faults_of_every_kind_lose_nothing(seed: int) -> None:
    """Kills, pauses, cuts and registry outages at moments the seed decides; never two replicas down at once."""
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        faults = cluster.world.faults
        for _ in range(8):
            victim = cluster.brokers[1 + faults.below(3)]
            match faults.below(5):
                case 0:
                    victim.kill()
                    cluster.world.run_for_ms(faults.below(3_000))
                    victim.restart()
                case 1:
                    victim.pause()
                    cluster.world.run_for_ms(faults.below(15_000))
                    victim.resume()
                case 2:
                    cluster.world.fabric.faults.isolate(victim.node.name)
                    cluster.world.run_for_ms(faults.below(8_000))
                    cluster.world.fabric.faults.heal()
                case 3:
                    cluster.store.cut(victim.node.name)
                    cluster.world.run_for_ms(faults.below(15_000))
                    cluster.store.heal(victim.node.name)
                case _:
                    victim.bounce()
            cluster.world.run_for_ms(faults.below(2_000))
        load.until_more()
        end_well(cluster, load)

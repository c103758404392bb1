"""Controllers and the registry under faults, row by row of the fault matrix (C)."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import SAFE, T0, Load, end_well, heal, kills, make_topic, produce
from tests.simulation.workload import properties
from tests.tiers import rest_proven
from tidelog.broker import Broker
from tidelog.client import Admin, ClientConfig, NewTopic
from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.service import BrokerIdTaken
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.registry_session import RegistryTiming

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
@pytest.mark.parametrize("seed", rest_proven(range(3)))
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
@pytest.mark.parametrize("seed", rest_proven(range(3)))
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
@pytest.mark.parametrize("seed", rest_proven(range(2)))
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
@pytest.mark.parametrize("seed", rest_proven(range(2)))
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
@pytest.mark.slow
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_c03_a_role_that_the_disk_refused_halfway_is_not_taken_for_done(role: str) -> None:
    """The controller's next word is heeded, and the role is there once there is room."""
    with three_brokers(3, min_insync_replicas="1") as cluster:
        cluster.until_ready()
        victim = cluster.brokers[3]
        victim.node.disk.fill_up()
        make_topic(cluster, (3, 1) if role == "leader" else (1, 3))
        cluster.world.run_for_ms(1_000)
        assert cluster.replica(3, T0) is None, "its log cannot be made"
        if role == "leader":
            cluster.until(lambda: cluster.state(T0).leader in (1, 3), "somebody is to lead")
        else:
            assert produce(cluster, b"while it could not follow") == 0
            cluster.brokers[1].bounce()  # another epoch, which it hears while it still has no room
            cluster.until(lambda: cluster.state(T0).leader_epoch > 0, "another epoch has begun")
        victim.node.disk.free_up()
        heal(cluster)
        assert produce(cluster, b"since") == (0 if role == "leader" else 1)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("after_ms", range(0, 120, 10))
def test_c04_a_change_that_comes_while_the_former_is_looked_at_is_seen(after_ms: int) -> None:
    """The word of a second death comes at each moment of the look that the first has caused; the next look would be in five seconds."""
    timing = RegistryTiming(latency_ms_max=40.0, watch_delay_ms_max=0.0)
    settings = {**QUICK, "min.insync.replicas": "1"}
    with SimulatedCluster(4, brokers=4, first=4, settings=settings, timing=timing) as cluster:
        make_topic(cluster, REPLICAS)
        cluster.world.run_for_ms(6_000)  # until the controller has nothing left to do
        for broker, pause_ms in ((3, after_ms), (1, 0)):
            cluster.brokers[broker].kill()
            cluster.store.expire_node(f"broker-{broker}")
            cluster.world.run_for_ms(pause_ms)
        cluster.until(lambda: cluster.state(T0).leader == 2, "its successor leads", within_ms=1_500)


@kills
@pytest.mark.slow
def test_c04_a_change_that_no_watch_ever_told_is_found_by_looking() -> None:
    timing = RegistryTiming(watch_delay_ms_max=10_000_000.0)
    settings = {**QUICK, "min.insync.replicas": "1"}
    with SimulatedCluster(4, brokers=3, first=3, settings=settings, timing=timing) as cluster:
        make_topic(cluster, (1, 2))
        for leader in (1, 2):
            cluster.until(lambda: len(cluster.state(T0).isr) == 2, "both are in sync")
            cluster.brokers[leader].kill()
            cluster.until(lambda: cluster.state(T0).leader == 3 - leader, "the other leads", within_ms=12_000)  # noqa: B023
            cluster.brokers[leader].restart()
        heal(cluster)


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


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(4)))
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

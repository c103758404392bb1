"""Networks and processes under faults, row by row of the fault matrix (N), and what clients meet on their way (F05)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from tests.simulation.clusters import (
    SAFE,
    T0,
    Load,
    check_promises,
    contents,
    end_well,
    heal,
    kills,
    make_topic,
    produce,
)
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tests.tiers import rest_proven
from tidelog.client import ClientConfig
from tidelog.client.cluster import Cluster
from tidelog.records.builder import RecordBatchBuilder
from tidelog.runtime import Address, Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.links import NetworkFaults
from tidelog.wire.api import ApiKey
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}
REPLICAS = (1, 2, 3)


def three_brokers(seed: int, **settings: str) -> SimulatedCluster:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(seed, brokers=3, settings={**QUICK, **named})


def produce_frame() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=0, key=None, value=b"half of this is sent")
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    return b"".join(encode_request_frame(RequestHeader(ApiKey.PRODUCE, 9, 1, "half"), request))


async def raw(runtime: Runtime, address: str) -> asyncio.Transport:
    """A connection that nobody speaks a protocol on."""
    made: list[asyncio.Transport] = []

    class Silent(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(cast(asyncio.Transport, transport))

    host, _, port = address.rpartition(":")
    await runtime.network.connect(Silent, Address(host, int(port)))
    return made[0]


def is_harmless(cut: Callable[[NetworkFaults], object]) -> None:
    """A cut around the leader, whose session lapses in the middle of it: another leads, the load goes on, nothing acknowledged is lost."""
    with three_brokers(3) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cut(cluster.world.fabric.faults)
        cluster.world.run_for_ms(4_000)
        cluster.store.expire_node("broker-1")
        cluster.until(lambda: cluster.state(T0).leader in (2, 3), "another leads")
        load.until_more(within_ms=60_000)  # Whom nobody tells that its leader fell waits for its request to time out.
        end_well(cluster, load)


def cut_off_from_peers(cluster: SimulatedCluster, broker_id: int) -> None:
    """For a while it hears clients and no other broker: what it takes then, nobody else has."""
    others = [broker.node.name for broker in cluster.brokers.values() if broker.broker_id != broker_id]
    cluster.world.fabric.faults.partition([f"broker-{broker_id}"], others)
    cluster.world.run_for_ms(200)


def cut_each(*ways: tuple[str, str]) -> Callable[[NetworkFaults], object]:
    def cut(faults: NetworkFaults) -> None:
        for source, target in ways:
            faults.cut(source, target)

    return cut


@kills
@pytest.mark.slow
@pytest.mark.parametrize("broker", [1, 3], ids=["leader", "follower"])
def test_n01_a_broker_cut_off_both_ways_is_done_without(broker: int) -> None:
    """From its peers first, then from everybody: another leads, or the ISR shrinks, and the load goes on."""
    with three_brokers(3) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cut_off_from_peers(cluster, broker)
        cluster.world.fabric.faults.isolate(f"broker-{broker}")
        cluster.store.cut(f"broker-{broker}")
        load.until_more(within_ms=60_000)
        assert broker not in cluster.state(T0).isr
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("is_deaf", [True, False], ids=["deaf", "mute"])
def test_n02_a_broker_cut_off_one_way_costs_nothing_that_was_acknowledged(*, is_deaf: bool) -> None:
    ways = [("broker-2", "broker-1"), ("broker-3", "broker-1")]
    is_harmless(cut_each(*(ways if is_deaf else [(target, source) for source, target in ways])))


@kills
@pytest.mark.slow
def test_n03_two_brokers_that_do_not_hear_each_other_cost_nothing_that_was_acknowledged() -> None:
    is_harmless(lambda faults: faults.partition(["broker-1"], ["broker-2"]))


@kills
@pytest.mark.slow
def test_n03_the_load_goes_on_with_the_followers_a_leader_still_hears() -> None:
    with three_brokers(3) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-3"])
        load.until_more(within_ms=10_000)
        assert cluster.state(T0).isr == (1, 2)
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_n04_a_link_that_comes_and_goes_ends_in_a_whole_cluster() -> None:
    with three_brokers(4) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        before = cluster.state(T0).partition_epoch
        for _ in range(30):
            cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])
            cluster.world.run_for_ms(1_000)
            cluster.world.fabric.faults.heal()
            cluster.world.run_for_ms(1_000)
        load.until_more()
        assert cluster.state(T0).partition_epoch - before <= 10, "no cut was longer than a follower may lag"
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
def test_n05_a_peer_that_lost_power_without_a_word_is_given_up(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cut_off_from_peers(cluster, 1)
        cluster.brokers[1].power_cut()
        cluster.world.fabric.faults.heal()
        load.until_more()
        cluster.brokers[1].restart()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_n08_what_a_dead_controller_said_arrives_last_and_counts_for_nothing(seed: int) -> None:
    """Two elections are told over two connections, and the word of the first, under way when its controller died, comes after the second."""
    with SimulatedCluster(seed, brokers=4, first=4, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        produce(cluster, b"before")
        cluster.world.fabric.faults.cut("broker-4", "broker-2")
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader == 2, "broker 2 is to lead; the word of it is on its way")
        first_epoch = cluster.state(T0).leader_epoch
        cluster.brokers[4].kill()
        cluster.brokers[1].restart()
        cluster.until(lambda: led_by(cluster, 2), "another controller has told broker 2")
        load = Load(cluster)
        load.until_more()
        cluster.store.expire_node("broker-2")  # which goes on, under another registration
        cluster.until(lambda: cluster.state(T0).leader not in (2, -1), "the next epoch has another leader")
        load.until_more()
        held = cluster.world.fabric.held_count
        cluster.world.fabric.faults.heal()
        epochs: list[int] = []
        for _ in range(500):
            cluster.world.run_for_ms(1)
            replica = cluster.replica(2, T0)
            assert replica is not None
            epochs.append(replica.leader_epoch)
        assert held > 0
        assert epochs == sorted(epochs)
        assert epochs[0] > first_epoch, "the word that came late was of an epoch that is over"
        end_well(cluster, load)


def led_by(cluster: SimulatedCluster, broker_id: int) -> bool:
    replica = cluster.replica(broker_id, T0)
    return replica is not None and replica.is_leader


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
def test_n09_a_leader_stopped_for_half_a_minute_is_a_zombie_that_harms_nobody(seed: int) -> None:
    with three_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        leader = cluster.leader(T0)
        cut_off_from_peers(cluster, leader.broker_id)
        leader.pause()
        cluster.world.fabric.faults.heal()
        cluster.world.run_for_ms(30_000)
        load.until_more()
        leader.resume()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
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
def test_n06_a_client_that_sends_a_byte_a_second_delays_nobody() -> None:
    with SimulatedCluster(6, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        slow = cluster.world.node("slow")
        for broker in REPLICAS:
            cluster.world.fabric.faults.slow("slow", f"broker-{broker}", latency_ms=(1, 5), bytes_per_ms=0.001)

        async def dribble(runtime: Runtime) -> None:
            for broker in REPLICAS:
                (await raw(runtime, f"broker-{broker}:9092")).write(produce_frame())

        slow.spawn(dribble(slow.runtime))
        cluster.world.run_for_ms(20_000)  # They are in the middle of their requests now.
        load = Load(cluster)
        load.until_more(100, within_ms=5_000)
        end_well(cluster, load)


@kills
@pytest.mark.parametrize("kept", [3, 20, -1])
def test_n07_a_request_that_breaks_off_in_the_middle_leaves_nothing(kept: int) -> None:
    with SimulatedCluster(7, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        assert produce(cluster, b"before") == 0

        async def break_off(runtime: Runtime) -> None:
            transport = await raw(runtime, cluster.leader(T0).address)
            transport.write(produce_frame()[:kept])

        cluster.tell(break_off)
        cluster.world.run_for_ms(1_000)
        assert cluster.world.fabric.faults.reset("client", cluster.leader(T0).node.name) > 0
        assert produce(cluster, b"after") == 1
        heal(cluster)
        assert contents(cluster, 1) == {0: b"before", 1: b"after"}


@kills
@pytest.mark.slow
def test_n11_a_broker_that_comes_back_at_another_address_is_found_again() -> None:
    with SimulatedCluster(11, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for broker in cluster.brokers.values():
            load.until_more()
            broker.kill()
            broker.configure({"listeners": f"PLAINTEXT://{broker.node.name}:19092"})
            broker.restart()
            cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync again")
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_f05_a_client_never_goes_back_to_an_earlier_leader_epoch() -> None:
    """In the end it can ask only a broker that has not heard of the elections."""
    with SimulatedCluster(5, brokers=4, first=4, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        seen: list[int] = []
        load = Load(cluster)
        load.until_more()
        cluster.world.fabric.faults.cut("broker-4", "broker-3")
        watcher = cluster.world.node("watcher")

        async def watch(runtime: Runtime) -> None:
            async with Cluster(ClientConfig.from_properties(properties(cluster)), runtime) as known:
                while True:
                    seen.append((await known.topic("t")).partitions[0].leader.leader_epoch)
                    await known.refresh()
                    await passed(0.05)

        watching = watcher.spawn(watch(watcher.runtime))
        for epoch in (1, 2):
            cluster.store.expire_node(cluster.leader(T0).node.name)
            cluster.until(lambda wanted=epoch: bool(seen) and seen[-1] >= wanted, "the client has heard")  # type: ignore[misc]
            load.until_more()
        load.stop()
        cluster.world.fabric.faults.partition(["watcher"], ["broker-1", "broker-2", "broker-4"])
        cluster.world.run_for_ms(10_000)
        heard = len(seen)
        cluster.until(lambda: len(seen) > heard + 10, "it hears of the one that is left")
        stale = cluster.replica(3, T0)
        assert stale is not None
        assert stale.leader_epoch < 2
        assert seen == sorted(seen)
        watching.cancel()
        heal(cluster)
        check_promises(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("jump_ms", rest_proven([3_600_000, -3_600_000]))
def test_a_wall_clock_that_jumps_changes_nothing_about_who_is_alive_or_in_sync(jump_ms: int) -> None:
    with SimulatedCluster(12, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        before = cluster.state(T0)
        for broker in cluster.brokers.values():
            broker.node.clock.jump_wall_ms(jump_ms)
            load.until_more()
        cluster.world.run_for_ms(30_000)
        load.until_more()
        assert cluster.state(T0) == before
        end_well(cluster, load)

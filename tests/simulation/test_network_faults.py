"""Clients that are slow, break off or come to an old address, and clocks that jump: the rest of the network's rows, in a cluster."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.simulation.clusters import (
    SAFE,
    T0,
    Load,
    contents,
    end_well,
    heal,
    kills,
    make_topic,
    produce,
)
from tests.simulation.workload import properties
from tidelog.client import ClientConfig
from tidelog.client.cluster import Cluster
from tidelog.records.builder import RecordBatchBuilder
from tidelog.runtime import Address, Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.api import ApiKey
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}
REPLICAS = (1, 2, 3)


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
    with SimulatedCluster(5, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        seen: list[int] = []

        async def watch(runtime: Runtime) -> None:
            async with Cluster(ClientConfig.from_properties(properties(cluster)), runtime) as known:
                while True:
                    topic = await known.topic("t")
                    seen.append(topic.partitions[0].leader.leader_epoch)
                    await known.refresh()

        watching = cluster.client.spawn(watch(cluster.client.runtime))
        load = Load(cluster)
        for _ in range(3):
            load.until_more()
            leader = cluster.leader(T0)
            leader.pause()  # It goes on believing what it knew, and says so when it is asked.
            cluster.world.run_for_ms(15_000)
            leader.resume()
            load.until_more()
        watching.cancel()
        load.stop()
        heal(cluster)
        assert len(set(seen)) > 2, "leaders have moved"
        assert seen == sorted(seen)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
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

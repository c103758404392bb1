"""Producers, consumers and admins of three production brokers in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.tiers import rest_proven
from tidelog.client import (
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    ElectionKind,
    LogTruncated,
    NewTopic,
    Producer,
    ProducerConfig,
    TopicMetadata,
)
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedBroker, SimulatedCluster

T = TypeVar("T")
T0 = TopicPartition("t", 0)
PATIENCE_S = 60

pytestmark = pytest.mark.slow


class ThreeBrokers(SimulatedCluster):
    """Three brokers, each in a rack of its own; the nearest replica serves consumers."""

    def __init__(self, seed: int = 1, **settings: str) -> None:
        super().__init__(seed, brokers=3)
        common = {
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "auto.create.topics.enable": "false",
            **_named(settings),
        }
        self.brokers = {
            node: SimulatedBroker(node, broker.node, self.store, {**common, "broker.rack": f"rack-{node}"})
            for node, broker in self.brokers.items()
        }

    def properties(self, **settings: str) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap} | _named(settings)

    def create_topic(self, *, assignment: tuple[BrokerId, ...] = (1, 2, 3), **configs: str) -> None:
        async def create(admin: Admin) -> None:
            (result,) = await admin.create_topics(
                [NewTopic(name="t", assignment={0: assignment}, configs=_named(configs))]
            )
            assert result.is_ok, result

        self.until_ready()
        self.administer(create)

    def administer(self, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        async def story(runtime: Runtime) -> T:
            async with Admin.connect(ClientConfig.from_properties(self.properties()), runtime) as admin:
                return await work(admin)

        return self.tell(story)

    def produce(self, *values: bytes, **settings: str) -> list[int]:
        async def story(runtime: Runtime) -> list[int]:
            config = ProducerConfig.from_properties(self.properties(**settings))
            async with Producer.connect(config, runtime) as producer:
                return [(await producer.send_and_wait("t", value, partition=0)).offset for value in values]

        return self.tell(story)

    def end_at(self, node: BrokerId) -> int | None:
        """How far a replica is, if it is there."""
        replica = self.replica(node, T0)
        return None if replica is None else replica.log_end_offset

    def consumer_config(self, **settings: str) -> ConsumerConfig:
        return ConsumerConfig.from_properties(self.properties(**{"auto_offset_reset": "earliest", **settings}))


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout_ms=1000)]
    return values


async def produce_one(cluster: ThreeBrokers, runtime: Runtime, value: bytes) -> None:
    config = ProducerConfig.from_properties(cluster.properties())
    async with Producer.connect(config, runtime) as producer:
        await producer.send_and_wait("t", value, partition=0)


class Load:
    """A producer that sends one record after the other, and a consumer that reads along."""

    def __init__(self, cluster: ThreeBrokers) -> None:
        self.acknowledged: dict[int, int] = {}
        self.read: list[int] = []
        self.longest_wait_ms = 0.0
        self._cluster = cluster
        self._is_over = False
        client = cluster.client
        self._tasks = [client.spawn(self._produce(client.runtime)), client.spawn(self._read(client.runtime))]

    def until_acknowledged(self, count: int) -> None:
        """So many more."""
        goal = len(self.acknowledged) + count
        self._cluster.until(lambda: len(self.acknowledged) >= goal, f"{count} more records are acknowledged")

    def finish(self) -> None:
        async def story() -> None:
            async with asyncio.timeout(PATIENCE_S):
                for task in self._tasks:
                    await task

        self._is_over = True
        self._cluster.world.run(story())

    async def _produce(self, runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(self._cluster.properties(linger_ms="20"))
        async with Producer.connect(config, runtime) as producer:
            index = 0
            while not self._is_over:
                started_ms = runtime.clock.monotonic_ms()
                metadata = await producer.send_and_wait("t", b"%d" % index, partition=0)
                self.acknowledged[metadata.offset] = index
                self.longest_wait_ms = max(self.longest_wait_ms, runtime.clock.monotonic_ms() - started_ms)
                index += 1

    async def _read(self, runtime: Runtime) -> None:
        async with Consumer.connect(self._cluster.consumer_config(), runtime) as consumer:
            consumer.assign([T0])
            while not self._is_over or len(self.read) <= max(self.acknowledged):
                for record in await consumer.poll(timeout_ms=100):
                    assert record.offset == len(self.read)
                    self.read.append(int(record.value or b""))


@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_clients_go_on_when_leaders_die(seed: int) -> None:
    with ThreeBrokers(seed, min_insync_replicas="2") as cluster:
        cluster.create_topic()
        load = Load(cluster)
        for _ in range(2):
            cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
            load.until_acknowledged(20)
            victim = cluster.leader(T0)
            victim.kill()
            load.until_acknowledged(20)
            victim.restart()
        load.finish()
    assert load.read == sorted(set(load.read))
    assert all(load.read[offset] == index for offset, index in load.acknowledged.items())
    assert load.longest_wait_ms < 1500


def test_clients_leave_a_leader_that_stands_still_when_the_cluster_does() -> None:
    with ThreeBrokers(min_insync_replicas="2") as cluster:
        cluster.create_topic()
        load = Load(cluster)
        load.until_acknowledged(20)
        zombie = cluster.leader(T0)
        zombie.pause()
        load.until_acknowledged(20)
        zombie.resume()
        cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
        load.finish()
    assert all(load.read[offset] == index for offset, index in load.acknowledged.items())
    assert load.longest_wait_ms < 15_000  # of which the registry takes 9,000 to believe it


def test_a_consumer_reads_from_its_own_rack_and_goes_on_when_that_broker_dies() -> None:
    def fetches_at(node: BrokerId) -> float:
        metrics = cluster.brokers[node].node.runtime.metrics
        return metrics.value("kafka_network_requestmetrics_requests_total", request="Fetch")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(cluster.consumer_config(client_rack="rack-3"), runtime) as consumer:
            consumer.assign([T0])
            assert await read(consumer, 2) == [b"a", b"b"]
            assert fetches_at(3) > 0
            assert cluster.state(T0).leader == 1
            cluster.brokers[3].kill()
            producing = cluster.client.spawn(produce_one(cluster, runtime, b"c"))
            assert await read(consumer, 1) == [b"c"]
            await producing

    with ThreeBrokers() as cluster:
        cluster.create_topic()
        cluster.produce(b"a", b"b")
        assert fetches_at(3) == 0
        cluster.tell(story)


def test_a_consumer_is_told_that_its_log_was_cut_by_an_unclean_election() -> None:
    told: list[LogTruncated] = []

    async def story(runtime: Runtime) -> None:
        config = cluster.consumer_config(auto_offset_reset="none")
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            assert await read(consumer, 4) == [b"a", b"b", b"c", b"d"]
            cluster.brokers[1].kill()
            cluster.brokers[2].restart()
            with pytest.raises(LogTruncated) as cut:
                await read(consumer, 1)
            told.append(cut.value)
            consumer.seek(T0, cut.value.divergent_offset or 0)
            producing = cluster.client.spawn(produce_one(cluster, runtime, b"x"))
            assert await read(consumer, 1) == [b"x"]
            await producing

    with ThreeBrokers() as cluster:
        cluster.create_topic(assignment=(1, 2), unclean_leader_election_enable="true")
        cluster.produce(b"a", b"b")
        cluster.until(lambda: cluster.end_at(2) == 2, "both have both")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "the follower is out")
        cluster.produce(b"c", b"d")
        cluster.checkers.clear()  # They rightly complain of what an unclean election loses.
        cluster.tell(story)
    assert (told[0].offset, told[0].divergent_offset) == (4, 2)


def test_leadership_goes_back_and_partitions_move() -> None:
    async def restored(admin: Admin) -> None:
        assert (await admin.elect_leaders(ElectionKind.PREFERRED, [T0]))[T0].is_ok

    async def moved(admin: Admin) -> None:
        assert (await admin.alter_reassignments({T0: [3, 2]}))[T0].is_ok
        async with asyncio.timeout(PATIENCE_S):
            while await admin.list_reassignments([T0]):
                continue
            while not await is_described_as_moved(admin):  # The controller tells brokers of it one by one.
                continue

    async def is_described_as_moved(admin: Admin) -> bool:
        topic = (await admin.describe_topics(["t"]))["t"]
        assert isinstance(topic, TopicMetadata)
        return (topic.partitions[0].replicas, sorted(topic.partitions[0].isr)) == ((3, 2), [2, 3])

    async def described(admin: Admin) -> None:
        told = await admin.describe_replicas([T0])
        leaders = {node: [one.is_leader for one in replicas] for node, replicas in told.items()}
        assert leaders[3] == [True]
        assert leaders[2] == [False]
        assert set(await admin.broker_epochs()) == {1, 2, 3}

    with ThreeBrokers() as cluster:
        cluster.create_topic(assignment=(1, 2))
        cluster.produce(b"a")
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader == 2, "the follower leads")
        cluster.brokers[1].restart()
        cluster.until(lambda: sorted(cluster.state(T0).isr) == [1, 2], "both are in sync")
        cluster.administer(restored)
        assert cluster.state(T0).leader == 1
        cluster.administer(moved)
        cluster.until(lambda: cluster.state(T0).leader == 3, "the new preferred leader leads")
        cluster.administer(described)

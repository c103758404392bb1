"""Transactional producers of three production brokers, which die and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.transactions.story import T0, committed_values, pass_time, producer_config, write
from tidelog.client import Admin, ClientConfig, NewTopic, PreparedTransaction, Producer
from tidelog.model import BrokerId
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

VERSIONS = ["1", "2"]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "3",
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=5, brokers=3, settings=SETTINGS) as cluster:
        cluster.until_ready()

        async def create(runtime: Runtime) -> None:
            async with Admin.connect(_client(cluster), runtime) as admin:
                (result,) = await admin.create_topics(
                    [NewTopic(name="t", assignment={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})]
                )
                assert result.is_ok, result

        cluster.tell(create)
        yield cluster


def _client(cluster: SimulatedCluster) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap})


async def coordinator_of_orders(cluster: SimulatedCluster, runtime: Runtime) -> BrokerId:
    async with Admin.connect(_client(cluster), runtime) as admin:
        found = (await admin.transactions.find_coordinators(["orders"]))["orders"]
        assert found in cluster.brokers
        return int(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_survives_its_coordinator(cluster: SimulatedCluster, version: str) -> None:
    async def story(runtime: Runtime) -> list[bytes]:
        config = producer_config(cluster, tidelog_transaction_version_max=version)
        async with Producer.connect(config, runtime) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            await producer.flush()
            dead = await coordinator_of_orders(cluster, runtime)
            cluster.brokers[dead].kill()
            await write(producer, b"b")
            await producer.commit_transaction()
            async with producer.transaction():
                await write(producer, b"c")
            cluster.brokers[dead].restart()
        return await committed_values(cluster, runtime)

    assert cluster.tell(story) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_survives_the_leader_it_writes_to(cluster: SimulatedCluster, version: str) -> None:
    async def story(runtime: Runtime) -> list[bytes]:
        config = producer_config(cluster, tidelog_transaction_version_max=version)
        async with Producer.connect(config, runtime) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            await producer.flush()
            leader = cluster.state(T0).leader
            cluster.brokers[leader].kill()
            await write(producer, b"b")
            await producer.commit_transaction()
            cluster.brokers[leader].restart()
        return await committed_values(cluster, runtime)

    assert cluster.tell(story) == [b"a", b"b"]


def test_a_prepared_transaction_survives_a_restart_of_all_brokers(cluster: SimulatedCluster) -> None:
    two_phase = {"transaction_two_phase_commit_enable": "true", "transaction_timeout_ms": "1000"}

    async def prepare(runtime: Runtime) -> str:
        async with Producer.connect(producer_config(cluster, **two_phase), runtime) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            return str(await producer.prepare_transaction())

    async def complete(runtime: Runtime) -> list[bytes]:
        await pass_time(30_000)
        async with Producer.connect(producer_config(cluster, **two_phase), runtime) as producer:
            await producer.init_transactions(keep_prepared=True)
            assert await producer.complete_transaction(PreparedTransaction.parse(text))
            async with producer.transaction():
                await write(producer, b"b")
        return await committed_values(cluster, runtime)

    text = cluster.tell(prepare)
    for node in cluster.brokers:
        cluster.brokers[node].kill()
    for node in cluster.brokers:
        cluster.brokers[node].restart()
    cluster.until_ready()
    assert cluster.tell(complete) == [b"a", b"b"]

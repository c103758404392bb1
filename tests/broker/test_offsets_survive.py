"""Offsets of open transactions survive the broker that looks after their group: the next one knows them, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.transactions.story import T0, pass_time, producer_config, write
from tidelog.client import Admin, ClientConfig, Committed, GroupMetadata, NewTopic, Producer
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

pytestmark = pytest.mark.slow

GROUP = "readers"
NOBODY = GroupMetadata(GROUP, -1, "", None)
SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=7, brokers=3, settings=SETTINGS) as cluster:
        cluster.until_ready()

        async def create(runtime: Runtime) -> None:
            async with Admin.connect(client_config(cluster), runtime) as admin:
                (result,) = await admin.create_topics([NewTopic(name="t", assignment={0: (1, 2, 3)})])
                assert result.is_ok, result
                committed = await admin.groups.alter_offsets(GROUP, {T0: Committed(1)})
                assert committed == {T0: ErrorCode.NONE}

        cluster.tell(create)
        yield cluster


def client_config(cluster: SimulatedCluster, **settings: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap, **settings})


async def coordinator(cluster: SimulatedCluster, runtime: Runtime) -> BrokerId:
    async with Admin.connect(client_config(cluster), runtime) as admin:
        found = (await admin.groups.find_coordinators([GROUP]))[GROUP]
        assert found in cluster.brokers
        return int(found)


async def committed(
    cluster: SimulatedCluster, runtime: Runtime, *, patience_ms: int = 30_000
) -> dict[TopicPartition, Committed] | ErrorCode:
    """What a careful reader would begin at; an error if that does not come out in time."""
    patience = {"default.api.timeout.ms": str(patience_ms), "request.timeout.ms": str(patience_ms)}
    async with Admin.connect(client_config(cluster, **patience), runtime) as admin:
        return (await admin.groups.committed_offsets([GROUP], is_stable_only=True))[GROUP]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("is_committed", [True, False])
def test_the_next_coordinator_of_a_group_knows_what_is_pending(
    cluster: SimulatedCluster, version: str, is_committed: bool
) -> None:
    async def story(runtime: Runtime) -> None:
        config = producer_config(cluster, tidelog_transaction_version_max=version)
        async with Producer.connect(config, runtime) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            await producer.send_offsets_to_transaction({T0: Committed(5)}, NOBODY)
            dead = await coordinator(cluster, runtime)
            cluster.brokers[dead].kill()
            await pass_time(20_000)
            assert await coordinator(cluster, runtime) != dead
            assert await committed(cluster, runtime, patience_ms=2_000) is ErrorCode.UNSTABLE_OFFSET_COMMIT
            if is_committed:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
            expected = 5 if is_committed else 1
            assert await committed(cluster, runtime) == {T0: Committed(expected)}
            cluster.brokers[dead].restart()
            second = await coordinator(cluster, runtime)
            await pass_time(20_000)
            cluster.brokers[second].kill()
            await pass_time(20_000)
            assert await committed(cluster, runtime) == {T0: Committed(expected)}

    cluster.tell(story)

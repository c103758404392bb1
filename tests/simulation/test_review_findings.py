"""What a hostile review found in the broker, told as stories."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.test_broker_disk_faults import try_to_write
from tests.simulation.workload import FLUSHED, T0, create_topic, keyed, properties, stored
from tidelog.client import (
    Consumer,
    ConsumerConfig,
    FetchFailed,
)
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

kills = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
TWO_DIRECTORIES = {"log.dirs": "/a,/b"}


def two_topics_on_two_directories(cluster: SimulatedCluster) -> str:
    """Topics t and u, a record each; the directory that holds t."""
    create_topic(cluster)
    create_topic(cluster, topic="u")
    disk = cluster.brokers[1].node.disk
    assert [try_to_write(cluster, b"0", topic=topic) for topic in "tu"] == [0, 0]
    homes = {topic: path for topic in "tu" for path in ("/a", "/b") if disk.exists(f"{path}/{topic}-0")}
    assert sorted(homes.values()) == ["/a", "/b"]
    return homes["t"]


def test_a_directory_that_fails_at_the_start_does_not_come_back_empty() -> None:
    with SimulatedCluster(settings={**TWO_DIRECTORIES, **FLUSHED}) as cluster:
        home = two_topics_on_two_directories(cluster)
        broker = cluster.brokers[1]
        cluster.world.run(broker.stop())
        broker.node.disk.faults.fail("lock", path=f"{home}/*", times=None)
        broker.restart()
        assert try_to_write(cluster, b"1", topic="u") == 1
        assert try_to_write(cluster, b"lost?", topic="t") in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        create_topic(cluster, topic="new")
        assert try_to_write(cluster, b"0", topic="new") == 0
        cluster.world.run(broker.stop())
        broker.node.disk.faults.heal()
        broker.restart()
        assert try_to_write(cluster, b"1", topic="t", timeout_ms=60_000) == 1
        assert stored(cluster, 2) == {0: b"0", 1: b"1"}


def test_a_read_error_takes_its_directory_offline_and_is_told_as_one() -> None:
    async def read(runtime: Runtime) -> ErrorCode | None:
        config = ConsumerConfig.from_properties(properties(cluster, retry_backoff_ms="50"))
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            try:
                async with asyncio.timeout(5):
                    while True:
                        await consumer.poll(timeout_ms=500)
            except FetchFailed as failed:
                return failed.code
            except TimeoutError:
                return None

    with SimulatedCluster(settings=TWO_DIRECTORIES) as cluster:
        home = two_topics_on_two_directories(cluster)
        cluster.brokers[1].node.disk.faults.fail("read", path=f"{home}/t-0/*.log", times=None)
        assert cluster.tell(read) in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        assert f"log directory failed directory={home}" in cluster.world.trace.text()
        assert try_to_write(cluster, b"1", topic="u") == 1


def test_a_topic_made_on_a_full_disk_comes_to_life_when_space_returns() -> None:
    with SimulatedCluster() as cluster:
        create_topic(cluster, topic="before")
        disk = cluster.brokers[1].node.disk
        disk.fill_up()
        create_topic(cluster)
        assert try_to_write(cluster, b"x") in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        disk.free_up()
        assert try_to_write(cluster, b"0", timeout_ms=60_000) == 0


def test_the_death_of_the_compaction_child_costs_one_compaction() -> None:
    settings = {"log.cleaner.backoff.ms": "100", **FLUSHED}
    with SimulatedCluster(settings=settings) as cluster:
        cluster.brokers[1].node.disk.child().doom()
        create_topic(cluster, cleanup_policy="compact", segment_bytes="1500", min_cleanable_dirty_ratio="0.01")
        for number in range(60):
            assert try_to_write(cluster, b"%d" % number, key=b"k") == number
        cluster.world.run_for_ms(5_000)
        assert cluster.world.trace.text().count("compaction child died") == 1
        assert len(keyed(cluster, end=60)) < 60

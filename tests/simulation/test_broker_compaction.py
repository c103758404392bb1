"""A production broker that compacts while the world changes around it."""

from __future__ import annotations

from tests.simulation.workload import FLUSHED, create_topic, delete_topic, properties
from tidelog.client import Producer, ProducerConfig
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

SETTINGS = {
    **FLUSHED,
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.flush.scheduler.interval.ms": "1000",
}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


def write_keys(cluster: SimulatedCluster, count: int) -> None:
    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(cluster, linger_ms="0"))
        async with Producer.connect(config, runtime) as producer:
            for number in range(count):
                sent = await producer.send("t", b"value %d" % number, key=b"key %d" % (number % 5), partition=0)
                await sent

    cluster.tell(story)


def cleaned_files(cluster: SimulatedCluster) -> list[str]:
    return [name for name in cluster.brokers[1].node.disk.listdir("/data/t-0") if name.endswith(".cleaned")]


def is_compacted(cluster: SimulatedCluster) -> bool:
    disk = cluster.brokers[1].node.disk
    return (
        b"t 0 " in disk.read("/data/cleaner-offset-checkpoint")
        if disk.exists("/data/cleaner-offset-checkpoint")
        else False
    )


def test_log_is_compacted_in_the_background() -> None:
    with SimulatedCluster(1, settings=SETTINGS) as cluster:
        create_topic(cluster, **COMPACTED)
        write_keys(cluster, 60)
        cluster.world.run_for_ms(10_000)
        assert is_compacted(cluster)


def test_topic_deleted_while_it_is_compacted_takes_nothing_offline() -> None:
    with SimulatedCluster(2, settings=SETTINGS) as cluster:
        create_topic(cluster, **COMPACTED)
        disk = cluster.brokers[1].node.disk
        disk.child_latency_ms = (30_000.0, 30_000.0)
        write_keys(cluster, 60)
        cluster.world.run_for_ms(3_000)  # The child has its plan.
        delete_topic(cluster, "t")
        cluster.world.run_for_ms(60_000)
        create_topic(cluster, **COMPACTED)
        write_keys(cluster, 5)


def test_d11_compaction_that_finds_the_disk_full_is_given_up_and_done_when_space_returns() -> None:
    with SimulatedCluster(3, settings=SETTINGS) as cluster:
        create_topic(cluster, **COMPACTED)
        disk = cluster.brokers[1].node.disk
        disk.child_latency_ms = (5_000.0, 5_000.0)
        write_keys(cluster, 60)
        disk.fill_up(after_bytes=300)
        cluster.world.run_for_ms(30_000)
        assert not is_compacted(cluster)
        assert cleaned_files(cluster) == []
        disk.free_up()
        write_keys(cluster, 5)
        cluster.world.run_for_ms(30_000)
        assert is_compacted(cluster)


def test_d11_retention_and_rolls_on_a_full_disk_take_nothing_offline() -> None:
    with SimulatedCluster(4, settings=SETTINGS) as cluster:
        create_topic(cluster, **{"retention.ms": "1000", "segment.ms": "1000"})
        write_keys(cluster, 5)
        cluster.brokers[1].node.disk.fill_up()
        cluster.world.run_for_ms(30_000)
        cluster.brokers[1].node.disk.free_up()
        write_keys(cluster, 5)

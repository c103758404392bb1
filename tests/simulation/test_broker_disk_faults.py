"""A production broker on disks that fill up, fail, stall and turn read-only; rows D11 to D15 of the fault matrix."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.workload import FLUSHED, Writing, create_topic, keyed, properties, stored
from tests.tiers import rest_proven
from tidelog.client import DeliveryTimeout, ProduceFailed, Producer, ProducerConfig
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.failures import SimulationFailed

kills = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def try_to_write(
    cluster: SimulatedCluster, value: bytes, *, topic: str = "t", key: bytes | None = None, timeout_ms: int = 3000
) -> int | ErrorCode | None:
    """The offset the broker gave it, its error, or None where no verdict came in time."""

    async def story(runtime: Runtime) -> int | ErrorCode | None:
        settings = {"delivery.timeout.ms": str(timeout_ms), "request.timeout.ms": "1000", "linger.ms": "0"}
        config = ProducerConfig.from_properties({**properties(cluster), **settings, "enable.idempotence": "false"})
        async with Producer.connect(config, runtime) as producer:
            try:
                return (await (await producer.send(topic, value, key=key, partition=0))).offset
            except ProduceFailed as failed:
                return failed.code
            except DeliveryTimeout:
                return None

    return cluster.tell(story)


def test_d11_a_full_disk_refuses_producers_and_the_broker_goes_on_when_space_returns() -> None:
    with SimulatedCluster(1, settings=FLUSHED) as cluster:
        create_topic(cluster)
        disk = cluster.brokers[1].node.disk
        assert try_to_write(cluster, b"before") == 0
        disk.fill_up(after_bytes=40)
        assert not isinstance(try_to_write(cluster, b"while full"), int)
        disk.free_up()
        assert try_to_write(cluster, b"after") == 1
        assert stored(cluster, 2) == {0: b"before", 1: b"after"}


@kills
def test_d11_what_was_acknowledged_before_the_disk_filled_up_survives_a_power_cut() -> None:
    with SimulatedCluster(2, settings=FLUSHED) as cluster:
        create_topic(cluster)
        broker = cluster.brokers[1]
        assert [try_to_write(cluster, b"%d" % n) for n in range(3)] == [0, 1, 2]
        broker.node.disk.fill_up(after_bytes=10)
        try_to_write(cluster, b"lost")
        broker.power_cut()
        broker.node.disk.free_up()
        broker.restart()
        assert try_to_write(cluster, b"3", timeout_ms=60_000) == 3
        assert stored(cluster, 4) == {n: b"%d" % n for n in range(4)}


def test_d12_a_failed_fsync_takes_the_directory_offline_and_nothing_is_acknowledged_after_it() -> None:
    with SimulatedCluster(3, settings={**FLUSHED, "log.dirs": "/a,/b", "num.partitions": "1"}) as cluster:
        create_topic(cluster)
        disk = cluster.brokers[1].node.disk
        assert try_to_write(cluster, b"0") == 0
        (home,) = [path for path in ("/a", "/b") if disk.exists(f"{path}/t-0")]
        disk.faults.fail("fsync", path=f"{home}/t-0/*.log")
        assert try_to_write(cluster, b"1") in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        disk.faults.heal()
        assert try_to_write(cluster, b"2") in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        assert disk.faults.injected == 1


def test_d14_a_directory_that_turns_read_only_does_not_stop_the_others() -> None:
    with SimulatedCluster(4, settings={"log.dirs": "/a,/b"}) as cluster:
        create_topic(cluster)
        create_topic(cluster, topic="u")
        disk = cluster.brokers[1].node.disk
        homes = {topic: path for topic in "tu" for path in ("/a", "/b") if disk.exists(f"{path}/{topic}-0")}
        assert sorted(homes.values()) == ["/a", "/b"]
        disk.faults.make_read_only(homes["t"])
        assert try_to_write(cluster, b"x", topic="t") in {ErrorCode.KAFKA_STORAGE_ERROR, None}
        assert try_to_write(cluster, b"y", topic="u") == 0


def write_to_a_disk_that_only_reads() -> None:
    with SimulatedCluster(5) as cluster:
        create_topic(cluster)
        cluster.brokers[1].node.disk.faults.make_read_only("/data")
        try_to_write(cluster, b"x")


def test_d14_a_broker_whose_last_directory_failed_stops_and_says_why() -> None:
    with pytest.raises(SimulationFailed, match="the main of the node raised") as stopped:
        write_to_a_disk_that_only_reads()
    assert "every log directory has failed" in str(stopped.value.__cause__)


def test_d13_a_stalled_fsync_delays_acknowledgements_but_not_the_loop() -> None:
    with SimulatedCluster(6, settings=FLUSHED) as cluster:
        create_topic(cluster)
        cluster.brokers[1].node.disk.stall("/data", duration_ms=20_000)
        began = cluster.world.loop.time()
        assert try_to_write(cluster, b"slow", timeout_ms=60_000) is not None
        assert cluster.world.loop.time() - began >= 10
        create_topic(cluster, topic="meanwhile")


@kills
def test_d15_a_jump_of_the_wall_clock_deletes_nothing_and_stops_nothing() -> None:
    settings = {"log.retention.check.interval.ms": "1000", "log.retention.hours": "2"}
    with SimulatedCluster(7, settings=settings) as cluster:
        create_topic(cluster)
        clock = cluster.brokers[1].node.clock
        assert try_to_write(cluster, b"0") == 0
        for jump_ms in (3_600_000, -7_200_000, 3_600_000):
            clock.jump_wall_ms(jump_ms)
            cluster.world.run_for_ms(5_000)
        assert try_to_write(cluster, b"1") == 1
        assert stored(cluster, 2) == {0: b"0", 1: b"1"}


def test_writing_goes_on_while_segments_roll_and_old_ones_are_deleted() -> None:
    settings = {"log.segment.bytes": "2000", "log.retention.bytes": "6000", "log.retention.check.interval.ms": "500"}
    with SimulatedCluster(8, settings={**settings, **FLUSHED, "log.segment.delete.delay.ms": "1000"}) as cluster:
        create_topic(cluster)
        writing = Writing(cluster)
        task = cluster.client.spawn(writing.write(cluster.client.runtime))
        cluster.world.run_for_ms(5_000)
        writing.stop()

        async def finished() -> None:
            async with asyncio.timeout(60):
                await task

        cluster.world.run(finished())
        cluster.world.run_for_ms(10_000)
        files = cluster.brokers[1].node.disk.listdir("/data/t-0")
        assert len(writing.acknowledged) > 100
        assert 1 <= sum(name.endswith(".log") for name in files) <= 5
        assert [name for name in files if name.endswith(".deleted")] == []


def write_keys(cluster: SimulatedCluster, *, rounds: int, keys: int) -> None:
    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(cluster))
        async with Producer.connect(config, runtime) as producer:
            for number in range(rounds):
                for key in range(keys):
                    await producer.send("t", b"%d" % number, key=b"%d" % key, partition=0)
                await producer.flush()

    cluster.tell(story)


@kills
@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_compaction_keeps_the_last_value_of_every_key_also_when_the_power_goes_in_between(seed: int) -> None:
    settings = {"log.cleaner.backoff.ms": "100", **FLUSHED}
    with SimulatedCluster(seed, settings=settings) as cluster:
        topic = {"cleanup.policy": "compact", "segment.bytes": "1500", "min.cleanable.dirty.ratio": "0.01"}
        create_topic(cluster, **{name.replace(".", "_"): value for name, value in topic.items()})
        write_keys(cluster, rounds=40, keys=5)
        broker = cluster.brokers[1]
        cluster.world.run_for_ms(cluster.world.faults.below(400))
        broker.power_cut()
        broker.restart()
        write_keys(cluster, rounds=1, keys=1)
        cluster.world.run_for_ms(10_000)
        found = keyed(cluster, end=201)
        assert len(found) < 100
        newest = {key: value for _, (key, value) in sorted(found.items())}
        assert newest == {b"0": b"0", **{b"%d" % key: b"39" for key in range(1, 5)}}

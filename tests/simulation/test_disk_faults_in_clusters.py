"""Disks of a whole cluster that lose power, rot, fill up, fail and stall; rows D01 to D14 of the fault matrix where they speak of replicas."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.simulation.clusters import (
    SAFE,
    T0,
    Load,
    consumed,
    contents,
    end_well,
    heal,
    is_whole,
    kills,
    make_topic,
    produce,
)
from tests.simulation.workload import properties
from tests.tiers import rest_proven
from tidelog.client import ClientError, Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.model import BrokerId, Offset
from tidelog.records import headers, read_header, read_records
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import all_checkers
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.disk_image import Loss
from tidelog.storage.names import CLEAN_SHUTDOWN, LOG

REPLICAS = (1, 2, 3)
QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}
SMALL_SEGMENTS = {"segment.bytes": "2000"}
FLUSHED = {"log_flush_interval_messages": "1"}


def four_brokers(seed: int, **settings: str) -> SimulatedCluster:
    """Three replicas, and a controller beside them that holds none."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(seed, brokers=4, first=4, settings={**QUICK, **named})


def log_files(cluster: SimulatedCluster, broker_id: BrokerId) -> list[str]:
    """The segments of the partition on a broker's disk, oldest first."""
    names = cluster.brokers[broker_id].node.disk.listdir("/data/t-0")
    return [f"/data/t-0/{name}" for name in sorted(names) if name.endswith(LOG)]


def stored_bytes(cluster: SimulatedCluster, broker_id: BrokerId) -> bytes:
    disk = cluster.brokers[broker_id].node.disk
    return b"".join(disk.read(path) for path in log_files(cluster, broker_id))


def flip_a_bit(cluster: SimulatedCluster, broker_id: BrokerId, *, number: int = 0, position: int = 80) -> None:
    """Rot in a sealed segment of a broker."""
    path = log_files(cluster, broker_id)[number]
    cluster.brokers[broker_id].node.disk.flip_bit(path, position=position)


def until_sealed(cluster: SimulatedCluster, load: Load, count: int = 4) -> None:
    load.until_more()
    while min(len(log_files(cluster, broker)) for broker in REPLICAS) < count:
        load.until_more()


def read_all(cluster: SimulatedCluster) -> dict[int, bytes]:
    return consumed(cluster, end=cluster.snapshot().replicas[T0][0].high_watermark)


def produce_keyed(cluster: SimulatedCluster, *, rounds: int, keys: int) -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(ProducerConfig.from_properties(properties(cluster)), runtime) as producer:
            for number in range(rounds):
                for key in range(keys):
                    await producer.send("t", b"%d" % number, key=b"%d" % key, partition=0)
                await producer.flush()

    cluster.tell(story)


def power_cut(cluster: SimulatedCluster, *broker_ids: BrokerId) -> None:
    for broker_id in broker_ids:
        cluster.brokers[broker_id].power_cut()


def restart(cluster: SimulatedCluster, *broker_ids: BrokerId) -> None:
    for broker_id in broker_ids:
        cluster.brokers[broker_id].restart()


# D01 to D05: power.


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_d01_records_on_flushed_disks_outlive_a_power_cut_of_all_brokers_at_once(seed: int) -> None:
    with four_brokers(seed, **FLUSHED) as cluster:
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        for _ in range(2):
            load.until_more()
            for broker in cluster.brokers.values():
                broker.node.disk.stall(
                    "/data", duration_ms=60_000
                )  # What is acknowledged from now on had better not be.
            cluster.world.run_for_ms(100)
            power_cut(cluster, *cluster.brokers)
            restart(cluster, *cluster.brokers)
            load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_d01_a_power_cut_of_all_page_caches_costs_the_end_of_the_log_and_nothing_else(seed: int) -> None:
    with four_brokers(seed) as cluster:
        cluster.checkers = all_checkers(may_lose=lambda _: True)
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        until_sealed(cluster, load)
        load.stop()
        before = contents(cluster, 1)
        flushed = min(partition.log.recovery_point for partition in cluster.brokers[1].partitions())
        power_cut(cluster, *cluster.brokers)
        restart(cluster, *cluster.brokers)
        heal(cluster)
        kept = contents(cluster, 1)
        assert 0 < flushed <= len(kept)
        assert kept == {offset: before[offset] for offset in range(len(kept))}
        assert produce(cluster, b"after") == len(kept)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_d02_a_torn_tail_is_cut_and_fetched_again(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for victim in (2, 1, 3):
            load.until_more()
            power_cut(cluster, victim)
            load.until_more()
            restart(cluster, victim)
            cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
        end_well(cluster, load)
        assert stored_bytes(cluster, 1) == stored_bytes(cluster, 2) == stored_bytes(cluster, 3)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
def test_d03_a_follower_that_lost_its_unflushed_end_cannot_lead_before_it_has_fetched_it_again(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more(100)
        load.stop()
        cluster.until(lambda: is_whole(cluster, T0), "all of them have everything, and none has flushed it")
        end = log_end(cluster, 2)
        for other in (1, 3):
            cluster.brokers[other].kill()
        victim = cluster.brokers[2]
        victim.kill()
        victim.node.disk.crash(lose=Loss.ALL)
        victim.restart()  # In the same instant: by the registry all three are in sync, and it alone will be left.
        assert set(cluster.state(T0).isr) == set(REPLICAS)
        cluster.until(lambda: victim.is_ready and cluster.replica(2, T0) is not None, "it is back")
        assert log_end(cluster, 2) < end - 50
        cluster.until(lambda: 2 not in cluster.state(T0).isr, "nobody counts on it", within_ms=5_000)
        cluster.world.run_for_ms(20_000)
        assert cluster.state(T0).leader == -1, "the others are known to be dead, and it is not asked"
        end_well(cluster, load)


def log_end(cluster: SimulatedCluster, broker_id: BrokerId) -> Offset:
    replica = cluster.replica(broker_id, T0)
    assert replica is not None
    return replica.log_end_offset


@kills
@pytest.mark.slow
def test_d04_zeros_in_the_middle_and_at_the_end_of_a_log_are_never_served() -> None:
    with four_brokers(4) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        power_cut(cluster, 3)
        disk = cluster.brokers[3].node.disk
        load.until_more()
        restart(cluster, 3)
        path = log_files(cluster, 3)[-1]
        with closing(disk.open(path)) as file:
            assert file.size() > 100
            file.pwrite(file.size() - 20, (bytes(720),))  # The middle of the last batch, and pages that never came.
            file.fsync()
        end_well(cluster, load)
        assert stored_bytes(cluster, 3) == stored_bytes(cluster, 1)
        assert read_all(cluster) == contents(cluster, 1)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("lose", rest_proven([Loss.ALL, Loss.NAMES, Loss.CONTENTS]), ids=lambda loss: loss.value)
def test_d05_new_segments_of_flushed_logs_keep_their_names_and_contents(lose: Loss) -> None:
    with four_brokers(5, **FLUSHED) as cluster:
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        until_sealed(cluster, load)
        for broker in cluster.brokers.values():
            broker.kill()
            broker.node.disk.crash(lose=lose)
        restart(cluster, *cluster.brokers)
        load.until_more()
        end_well(cluster, load)


# D06 to D09: what lies beside the records.


@kills
@pytest.mark.slow
def test_d06_a_broker_killed_while_it_loads_does_not_trust_its_last_clean_shutdown() -> None:
    with four_brokers(6) as cluster:
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        victim = cluster.brokers[2]
        is_marked = []
        for pause_ms in (0, 5, 11, 14):
            load.until_more()
            cluster.world.run(victim.stop())
            victim.restart()
            cluster.world.run_for_ms(pause_ms)
            victim.power_cut()
            is_marked.append(bool(victim.node.disk.look_at(f"/data/{CLEAN_SHUTDOWN}")))
            victim.restart()
            cluster.until_ready()
            opened = [line for line in cluster.world.trace.lines if "broker-2     log directory opened" in line]
            assert opened[-1].endswith(f"is_clean={is_marked[-1]}")
            cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
        assert is_marked[0], "nothing was loaded yet"
        assert not is_marked[-1], "the load had begun"
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_d07_a_power_cut_in_a_compaction_leaves_old_or_new_content_on_every_replica() -> None:
    topic = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    with four_brokers(7, log_cleaner_backoff_ms="50", **FLUSHED) as cluster:
        make_topic(cluster, REPLICAS, topic)
        for number in range(6):
            produce_keyed(cluster, rounds=15, keys=5)
            cluster.world.run_for_ms(20 * number)
            power_cut(cluster, 1 + number % 3)
            restart(cluster, 1 + number % 3)
            cluster.until_ready()
            cluster.until(lambda: is_whole(cluster, T0), "all are in sync")
        cluster.world.run_for_ms(5_000)
        for broker_id in REPLICAS:
            found = keys_of(cluster, broker_id)
            assert {key: value for key, value in found if key} == {b"%d" % key: b"14" for key in range(5)}
            assert len(found) < 300


@kills
@pytest.mark.slow
@pytest.mark.parametrize("damage", rest_proven(["missing", "zeros", "short", "ahead"]))
def test_d08_damaged_indexes_are_made_anew_and_never_believed(damage: str) -> None:
    with four_brokers(8) as cluster:
        make_topic(cluster, REPLICAS, {**SMALL_SEGMENTS, "index.interval.bytes": "100"})
        load = Load(cluster)
        until_sealed(cluster, load)
        load.stop()
        for broker_id in REPLICAS:
            cluster.world.run(cluster.brokers[broker_id].stop())
            damage_files(cluster, broker_id, ("index",), damage)
        restart(cluster, *REPLICAS)
        end_well(cluster, load)
        assert read_all(cluster) == contents(cluster, 2)
        found = time_offset(cluster, cluster.brokers[1].node.clock.wall_ms() - 3_600_000)
        assert found == 0


@kills
@pytest.mark.slow
@pytest.mark.parametrize("damage", rest_proven(["missing", "zeros", "short"]))
def test_d09_damaged_checkpoints_cost_a_reading_and_no_record(damage: str) -> None:
    with four_brokers(9) as cluster:
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        until_sealed(cluster, load)
        cluster.world.run_for_ms(10_000)
        load.stop()
        for broker_id in REPLICAS:
            cluster.brokers[broker_id].kill()
            damage_files(cluster, broker_id, ("checkpoint",), damage)
        restart(cluster, *REPLICAS)
        end_well(cluster, load)
        assert stored_bytes(cluster, 1) == stored_bytes(cluster, 2) == stored_bytes(cluster, 3)


def damage_files(cluster: SimulatedCluster, broker_id: BrokerId, endings: tuple[str, ...], damage: str) -> None:
    """Spoil the small files of a broker that is down."""
    disk = cluster.brokers[broker_id].node.disk
    disk.crash(lose=Loss.NOTHING)
    for directory in ("/data", "/data/t-0"):
        for name in disk.listdir(directory):
            if name.endswith(endings):
                content = disk.read(f"{directory}/{name}")
                spoilt = {"zeros": bytes(len(content)), "short": content[: len(content) // 2 + 1]}
                if damage == "missing":
                    disk.unlink(f"{directory}/{name}")
                else:
                    ahead = content[:-1] + b"\x7f" if content else b""
                    disk.replace(f"{directory}/{name}", spoilt.get(damage, ahead))


def time_offset(cluster: SimulatedCluster, timestamp_ms: int) -> int | None:
    """The first offset at or after a time, as a consumer is told."""

    async def story(runtime: Runtime) -> int | None:
        async with Consumer.connect(ConsumerConfig.from_properties(properties(cluster)), runtime) as consumer:
            found = (await consumer.offsets_for_times({T0: timestamp_ms}))[T0]
            return None if found is None else found.offset

    return cluster.tell(story)


def keys_of(cluster: SimulatedCluster, broker_id: BrokerId) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of every record of a replica, in order."""
    found: list[tuple[bytes | None, bytes | None]] = []
    for partition in cluster.brokers[broker_id].partitions():
        log, offset = partition.log, partition.log.log_start_offset
        while data := log.read(offset, max_bytes=1, end_offset=log.log_end_offset):
            found += [(record.key, record.value) for record in read_records(data, max_bytes=1 << 24)]
            offset = read_header(data).next_offset
    return found


# D11 to D14: disks that say no.


@kills
@pytest.mark.slow
def test_d11_a_follower_whose_disk_is_full_leaves_the_isr_and_comes_back_with_space() -> None:
    with four_brokers(11) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        disk = cluster.brokers[2].node.disk
        disk.fill_up(after_bytes=100)
        cluster.until(lambda: 2 not in cluster.state(T0).isr, "the follower has left")
        load.until_more()
        disk.free_up()
        cluster.until(lambda: 2 in cluster.state(T0).isr, "the follower is back")
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_d12_a_leader_whose_fsync_fails_acknowledges_nothing_more_and_is_replaced() -> None:
    with four_brokers(12, log_dirs="/data,/other", **FLUSHED) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        faults = cluster.brokers[1].node.disk.faults
        faults.fail("fsync", path="*/t-0/*.log")
        cluster.until(lambda: cluster.state(T0).leader != 1, "another leads")
        faults.heal()
        load.until_more()
        assert 1 not in cluster.state(T0).isr
        cluster.brokers[1].bounce()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_d13_a_follower_with_a_stalled_disk_leaves_the_isr_and_loses_no_acknowledgement() -> None:
    with four_brokers(13, **FLUSHED) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.brokers[3].node.disk.stall("/data", duration_ms=20_000)
        cluster.until(lambda: 3 not in cluster.state(T0).isr, "the slow one has left", within_ms=15_000)
        load.until_more(within_ms=3_000)
        cluster.until(lambda: 3 in cluster.state(T0).isr, "it is back")
        end_well(cluster, load)


# D10: rot.


@kills
@pytest.mark.slow
@pytest.mark.parametrize("position", [80, 10, 3], ids=["a record", "a length", "an offset"])
def test_d10_a_leader_that_meets_rot_hands_over_and_is_repaired_from_a_peer(position: int) -> None:
    with four_brokers(1) as cluster:
        make_topic(cluster, REPLICAS, SMALL_SEGMENTS)
        load = Load(cluster)
        until_sealed(cluster, load)
        flip_a_bit(cluster, 1, number=1, position=position)
        found = read_all(cluster)
        assert not list(load.acknowledged.missing(T0, found))
        load.until_more()
        assert cluster.state(T0).leader != 1
        cluster.until(lambda: 1 in cluster.state(T0).isr, "the replica is repaired")
        end_well(cluster, load)
        assert stored_bytes(cluster, 1) == stored_bytes(cluster, 2) == stored_bytes(cluster, 3)


@kills
@pytest.mark.slow
def test_d10_rot_that_compaction_meets_on_a_follower_is_repaired_from_the_leader() -> None:
    topic = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    with four_brokers(2, log_cleaner_backoff_ms="5000") as cluster:
        make_topic(cluster, REPLICAS, topic)
        produce_keyed(cluster, rounds=40, keys=5)
        flip_a_bit(cluster, 3)
        cluster.until(lambda: 3 not in cluster.state(T0).isr, "nobody counts on the rotten replica")
        assert cluster.state(T0).leader == 1
        cluster.until(lambda: is_whole(cluster, T0), "it is repaired")
        cluster.world.run_for_ms(20_000)
        found = keys_of(cluster, 3)
        assert dict(found) == {b"%d" % key: b"39" for key in range(5)} == dict(keys_of(cluster, 1))
        assert len(found) < 100


@kills
@pytest.mark.slow
def test_d10_a_leader_without_others_in_sync_keeps_its_records_and_says_that_it_is_damaged() -> None:
    with four_brokers(3, min_insync_replicas="1") as cluster:
        make_topic(cluster, (1, 2), {**SMALL_SEGMENTS, "min.insync.replicas": "1"})
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "the leader is alone")
        produce_keyed(cluster, rounds=40, keys=5)
        before = stored_bytes(cluster, 1)
        number = len(log_files(cluster, 1)) // 2
        flip_a_bit(cluster, 1, number=number)
        rotten = int(log_files(cluster, 1)[number].rpartition("/")[2].removesuffix(LOG))
        assert sorted(consumed(cluster, end=rotten)) == list(range(rotten))
        assert reads_at(cluster, rotten) is None
        cluster.world.run_for_ms(30_000)
        assert len(stored_bytes(cluster, 1)) == len(before)
        assert cluster.state(T0).leader == 1
        assert produce(cluster, b"still written") == 200
        restart(cluster, 2)
        cluster.until(lambda: cluster.brokers[2].is_ready, "the follower is back")
        cluster.world.run_for_ms(10_000)
        follower = cluster.replica(2, T0)
        assert follower is not None
        assert follower.log_end_offset == rotten
        assert "damaged replica not repaired" in cluster.world.trace.text()


def reads_at(cluster: SimulatedCluster, offset: int) -> bytes | None:
    """The first value that a consumer gets at an offset within a while."""

    async def story(runtime: Runtime) -> bytes | None:
        async with Consumer.connect(ConsumerConfig.from_properties(properties(cluster)), runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, offset)
            for _ in range(5):
                try:
                    for record in await consumer.poll(timeout_ms=1000):
                        return record.value
                except ClientError:
                    continue
            return None

    return cluster.tell(story)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_d10_a_broker_that_finds_its_end_rotten_at_a_start_is_counted_on_no_more(is_clean: bool) -> None:
    """What it cuts was committed: if it kept its place in the ISR, it could lead without it."""
    with four_brokers(4) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        load.stop()
        victim = cluster.brokers[2]
        cluster.until(lambda: is_whole(cluster, T0), "all are equal")
        if is_clean:
            cluster.world.run(victim.stop())
        else:
            victim.kill()
        path = "/data/t-0/00000000000000000000.log"
        content = victim.node.disk.look_at(path)[path]
        victim.node.disk.flip_bit(
            path, position=len(content) - 30 if not is_clean else len(content) - last_size(content) + 16
        )
        cluster.world.fabric.faults.partition(["broker-2"], ["broker-1", "broker-3"])
        victim.restart()
        cluster.until(lambda: victim.is_ready, "it is back")
        cluster.brokers[1].kill()
        cluster.brokers[3].kill()
        cluster.world.run_for_ms(5_000)
        assert cluster.state(T0).leader == -1
        end_well(cluster, load)


def last_size(content: bytes) -> int:
    """Bytes of the last batch."""
    return [header.size for _, header in headers(content)][-1]

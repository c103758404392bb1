from __future__ import annotations

from contextlib import suppress

import pytest

from tests.simulation.clusters import T0, kills, make_topic, produce
from tidelog.partition import Partition
from tidelog.simulation.checkers import FlushedStays, RecoveredIsSound
from tidelog.simulation.cluster import LOG_DIR, SimulatedCluster
from tidelog.simulation.disk_faults import PowerCut

SEGMENT = f"{LOG_DIR}/{T0}/00000000000000000000.log"
EVERY_MESSAGE = {"log.flush.interval.messages": "1"}


def broken(checker: FlushedStays, cluster: SimulatedCluster) -> list[str]:
    return list(checker.look(cluster.snapshot()))


def replica(cluster: SimulatedCluster) -> Partition | None:
    return next((one for one in cluster.brokers[1].partitions() if one.topic_partition == T0), None)


def cut_on_the_platter(cluster: SimulatedCluster) -> None:
    """As a flush that never happened would leave it."""
    file = cluster.brokers[1].node.disk.peek(SEGMENT)
    assert file is not None
    del file.content[:], file.durable[:]


@kills
@pytest.mark.slow
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_log_that_comes_back_without_what_it_had_flushed_is_noticed(is_lost: bool) -> None:
    with SimulatedCluster(3, settings=EVERY_MESSAGE) as cluster:
        make_topic(cluster, (1,))
        produce(cluster, b"flushed")
        checker = FlushedStays(cluster.brokers.values())
        assert broken(checker, cluster) == []
        cluster.brokers[1].power_cut()
        if is_lost:
            cut_on_the_platter(cluster)
        assert broken(checker, cluster) == []
        cluster.brokers[1].restart()
        cluster.until(lambda: replica(cluster) is not None, "the replica is back")
        found = ["t-0: broker 1 had flushed up to 1 and came back with a log that ends at 0"] if is_lost else []
        assert broken(checker, cluster) == found
        assert broken(checker, cluster) == []


@kills
@pytest.mark.slow
@pytest.mark.parametrize("dies_in", ["truncate", "fsync", "nothing"])
def test_a_log_that_its_broker_has_cut_before_it_died_unseen_comes_back_short(dies_in: str) -> None:
    with SimulatedCluster(3, settings=EVERY_MESSAGE) as cluster:
        make_topic(cluster, (1,))
        produce(cluster, b"flushed")
        broker, checker = cluster.brokers[1], FlushedStays(cluster.brokers.values())
        assert broken(checker, cluster) == []
        partition = replica(cluster)
        assert partition is not None
        broker.node.disk.on_operation(
            lambda operation: broker.die_now() if (operation.name, operation.path) == (dies_in, SEGMENT) else None
        )
        with suppress(PowerCut):
            partition.log.truncate_to(0)
        if broker.node.is_running:
            broker.die_now()
        dies_in = "nothing any more"
        broker.restart()
        cluster.until(lambda: replica(cluster) is not None, "the replica is back")
        assert broken(checker, cluster) == []


@kills
@pytest.mark.slow
def test_a_disk_that_was_replaced_has_nothing_to_keep() -> None:
    with SimulatedCluster(3, settings=EVERY_MESSAGE) as cluster:
        make_topic(cluster, (1,))
        produce(cluster, b"flushed")
        checker = FlushedStays(cluster.brokers.values())
        assert broken(checker, cluster) == []
        cluster.brokers[1].power_cut()
        cluster.brokers[1].node.disk.wipe()
        cluster.brokers[1].restart()
        cluster.until(lambda: replica(cluster) is not None, "the replica is back")
        assert broken(checker, cluster) == []


@kills
@pytest.mark.slow
def test_a_log_may_be_cut_where_a_bit_has_turned_before_its_broker_died() -> None:
    with SimulatedCluster(3, settings=EVERY_MESSAGE) as cluster:
        make_topic(cluster, (1,))
        produce(cluster, b"flushed")
        disk = cluster.brokers[1].node.disk
        checker = FlushedStays(cluster.brokers.values())
        assert broken(checker, cluster) == []
        disk.flip_bit(SEGMENT, position=len(disk.look_at(SEGMENT)[SEGMENT]) - 1)
        assert broken(checker, cluster) == []
        cluster.brokers[1].power_cut()
        cluster.brokers[1].restart()
        cluster.until(lambda: replica(cluster) is not None, "the replica is back")
        assert broken(checker, cluster) == []


@kills
@pytest.mark.slow
def test_half_a_batch_in_a_log_is_noticed_once_in_each_life() -> None:
    with SimulatedCluster(3, settings=EVERY_MESSAGE) as cluster:
        make_topic(cluster, (1,))
        produce(cluster, b"whole")
        checker = RecoveredIsSound(cluster.brokers.values())
        assert list(checker.look(cluster.snapshot())) == []
        file = cluster.brokers[1].node.disk.peek(SEGMENT)
        assert file is not None
        file.content[-1] ^= 1
        assert list(checker.look(cluster.snapshot())) == []
        fresh = RecoveredIsSound(cluster.brokers.values())
        assert list(fresh.look(cluster.snapshot())) == [
            f"t-0: broker 1 opened a log with no whole batch at 0 of {SEGMENT}"
        ]
        file.content[-1] ^= 1

"""The production broker and our client in a simulated world: same seed, same run; and what a power cut may not take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.workload import FLUSHED, Writing, create_topic, delete_topic, stored
from tests.tiers import rest_proven
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.registry import SimulatedRegistryStore

# A killed process runs no `finally`; Python says so when its coroutines, which would have liked to, are thrown away.
kills = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def cut_power_again_and_again(seed: int, *, cuts: int) -> tuple[str, dict[int, bytes], dict[int, bytes]]:
    """(digest, what was acknowledged, what is stored) after a load with power cuts at moments the seed decides."""
    with SimulatedCluster(seed, settings=FLUSHED) as cluster:
        create_topic(cluster)
        writing = Writing(cluster)
        task = cluster.client.spawn(writing.write(cluster.client.runtime))
        broker = cluster.brokers[1]
        for _ in range(cuts):
            cluster.world.run_for_ms(50 + cluster.world.faults.below(500))
            broker.power_cut()
            cluster.world.run_for_ms(cluster.world.faults.below(300))
            broker.restart()
        writing.stop()

        async def finished() -> None:
            await task

        cluster.world.run(finished())
        found = stored(cluster, max(writing.acknowledged, default=-1) + 1)
        return cluster.world.digest(), writing.acknowledged, found


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_nothing_acknowledged_is_lost_when_the_power_goes(seed: int) -> None:
    _, acknowledged, found = cut_power_again_and_again(seed, cuts=4)
    assert len(acknowledged) > 100
    assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
    assert len(set(found.values())) == len(found), "idempotence: no value twice"


@kills
@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_nothing_acknowledged_is_lost_when_the_power_goes_on_many_seeds() -> None:
    for seed in range(100, 200):
        _, acknowledged, found = cut_power_again_and_again(seed, cuts=6)
        missing = {offset: value for offset, value in acknowledged.items() if found.get(offset) != value}
        assert not missing, f"seed {seed}"
        assert len(set(found.values())) == len(found), f"seed {seed}"


def test_a_topic_can_be_deleted_while_its_first_flush_is_wanted_or_under_way() -> None:
    with SimulatedCluster() as cluster:
        for under_way, wanted in (("a", "b"), ("c", "d")):
            cluster.brokers[1].node.disk.stall("/data", duration_ms=2_000)
            create_topic(cluster, topic=under_way)
            create_topic(cluster, topic=wanted)
            delete_topic(cluster, wanted)
            delete_topic(cluster, under_way)
            cluster.world.run_for_ms(5_000)
        create_topic(cluster)


async def forget_topic(store: SimulatedRegistryStore) -> None:
    registry = store.handle()
    await registry.open_session()
    for path in ("partitions/0/state", "partitions/0", "partitions", ""):
        await registry.delete(f"/brokers/topics/t/{path}".rstrip("/"))
    await registry.delete("/config/topics/t")
    await registry.close()


def test_records_of_a_topic_that_the_registry_has_lost_are_set_aside_not_deleted() -> None:
    with SimulatedCluster() as cluster:
        create_topic(cluster)
        broker = cluster.brokers[1]
        cluster.world.run(broker.stop())
        cluster.world.run(forget_topic(cluster.store))
        broker.restart()
        create_topic(cluster)
        names = broker.node.disk.listdir("/data")
        assert "t-0" in names
        assert sum(name.startswith("t-0.") and name.endswith("-stray") for name in names) == 1


async def mark_for_deletion(store: SimulatedRegistryStore) -> None:
    registry = store.handle()
    await registry.open_session()
    await registry.create("/admin/delete_topics/t")
    await registry.close()


def test_records_of_a_topic_whose_deletion_was_interrupted_go_with_the_next_start() -> None:
    with SimulatedCluster() as cluster:
        create_topic(cluster)
        broker = cluster.brokers[1]
        cluster.world.run(broker.stop())
        cluster.world.run(mark_for_deletion(cluster.store))
        broker.restart()
        cluster.world.run_for_ms(20_000)
        assert [name for name in broker.node.disk.listdir("/data") if name.startswith("t-0")] == []
        create_topic(cluster)


def test_a_clean_stop_leaves_nothing_to_recover_and_a_restart_is_an_election() -> None:
    with SimulatedCluster(settings=FLUSHED) as cluster:
        create_topic(cluster)
        writing = Writing(cluster)
        task = cluster.client.spawn(writing.write(cluster.client.runtime))
        cluster.world.run_for_ms(200)
        writing.stop()

        async def stopped() -> None:
            await task
            await cluster.brokers[1].stop()

        cluster.world.run(stopped())
        cluster.brokers[1].restart()
        assert stored(cluster, len(writing.acknowledged)) == writing.acknowledged
        said = cluster.world.trace.text()
        assert "log_count=1 is_clean=True" in said
        assert "became leader partition=t-0 leader_epoch=1" in said


@kills
@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, *_ = cut_power_again_and_again(11, cuts=2)
    again, *_ = cut_power_again_and_again(11, cuts=2)
    other, *_ = cut_power_again_and_again(12, cuts=2)
    assert first == again
    assert first != other


@kills
@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_under_another_hash_seed() -> None:
    here, *_ = cut_power_again_and_again(11, cuts=2)
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-W", "ignore", __file__],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert printed.stdout.strip() == here


if __name__ == "__main__":
    sys.stdout.write(cut_power_again_and_again(11, cuts=2)[0] + "\n")

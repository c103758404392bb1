"""The production broker and our client in a simulated world: same seed, same run; and what a power cut may not take."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.client import NewTopic as WantedTopic
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

FLUSHED = {"log.flush.interval.messages": "1"}
T0 = TopicPartition("t", 0)

# A killed process runs no `finally`; Python says so when its coroutines, which would have liked to, are thrown away.
kills = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def properties(cluster: SimulatedCluster, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap, **{name.replace("_", "."): value for name, value in more.items()}}


def create_topic(cluster: SimulatedCluster, **configs: str) -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            (result,) = await admin.create_topics(
                [WantedTopic(name="t", partition_count=1, replication_factor=1, configs=configs)]
            )
            assert result.is_ok, result

    cluster.tell(story)


class Writing:
    """A producer that writes numbers until told to stop, and what it was promised: value by offset."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.acknowledged: dict[int, bytes] = {}
        self._is_over = False

    async def write(self, runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(self._cluster, linger_ms="1", delivery_timeout_ms="600000"))
        async with Producer.connect(config, runtime) as producer:
            number = 0
            while not self._is_over:
                sending = [await producer.send("t", b"%d" % (number + n), partition=0) for n in range(10)]
                number += 10
                for n, future in enumerate(sending):
                    self.acknowledged[(await future).offset] = b"%d" % (number - 10 + n)

    def stop(self) -> None:
        self._is_over = True


def stored(cluster: SimulatedCluster, end: int) -> dict[int, bytes]:
    async def story(runtime: Runtime) -> dict[int, bytes]:
        config = ConsumerConfig.from_properties(properties(cluster, auto_offset_reset="earliest"))
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            found: dict[int, bytes] = {}
            async with asyncio.timeout(600):
                while len(found) < end:
                    found |= {record.offset: record.value or b"" for record in await consumer.poll(timeout_ms=1000)}
            return found

    return cluster.tell(story)


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
@pytest.mark.parametrize("seed", range(3))
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

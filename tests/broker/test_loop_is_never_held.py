"""What runs where: under load, no callback of a broker holds its loop for 100 ms."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import pytest
import uvloop

from tests.slow_callbacks import no_slow_callbacks
from tidelog.broker import Broker
from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, NewTopic, Producer, ProducerConfig
from tidelog.config import BrokerConfig
from tidelog.model import TopicPartition
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.runtime import Address, Runtime
from tidelog.runtime.real import real_runtime

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "log.segment.bytes": "4000000",
    "log.retention.bytes": "20000000",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}


@pytest.mark.timed
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_no_callback_over_100_ms_under_load(loop: object, tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]  # uvloop's loop is asyncio's in all but name
        runner.run(_story(tmp_path))


async def _story(data: Path) -> None:
    runtime = real_runtime()
    config = BrokerConfig.from_properties({**SETTINGS, "log.dirs": str(data / "logs")})
    broker = Broker(config, runtime, SqliteRegistry(str(data / "registry.sqlite")))
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(broker.run(on_ready=lambda addresses: ready.set_result(addresses["PLAINTEXT"])))
        address = await ready
        gc.collect()
        gc.freeze()  # As `tidelog up` does; a test process has much more to collect than a broker.
        with no_slow_callbacks():
            await _in_another_process(address)
        gc.unfreeze()
        broker.stop()
        await running
    runtime.disk.close()


async def _in_another_process(address: Address) -> None:
    """A process of its own, so that only the broker's callbacks are on the loop that is watched."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.broker.test_loop_is_never_held", str(address), cwd=Path(__file__).parents[2]
    )
    async with asyncio.timeout(50):
        assert await process.wait() == 0


async def _load(bootstrap: dict[str, str], runtime: Runtime) -> None:
    """Many partitions, segments that roll, are deleted and compacted, large batches, readers behind."""
    async with Admin.connect(ClientConfig.from_properties(bootstrap), runtime) as admin:
        compacted = {"cleanup.policy": "compact", "segment.bytes": "1000000"}
        results = await admin.create_topics(
            [
                NewTopic(name="wide", partition_count=200, replication_factor=1),
                NewTopic(name="deep", partition_count=2, replication_factor=1),
                NewTopic(name="compacted", partition_count=1, replication_factor=1, configs=compacted),
            ]
        )
        assert all(result.is_ok for result in results)
    config = ProducerConfig.from_properties(
        {**bootstrap, "batch.size": "900000", "linger.ms": "2", "compression.type": "lz4"}
    )
    async with Producer.connect(config, runtime) as producer:
        for number in range(20_000):
            await producer.send("deep", runtime.randomness.bytes(1000), partition=number % 2)
            if number % 20 == 0:
                await producer.send("wide", b"x" * 100, partition=number // 20 % 200)
                await producer.send("compacted", runtime.randomness.bytes(2000), key=b"%d" % (number % 100))
    async with Consumer.connect(ConsumerConfig.from_properties(bootstrap), runtime) as consumer:
        consumer.assign([TopicPartition("deep", 0), TopicPartition("deep", 1)])
        consumer.seek_to_beginning()
        seen = 0
        async with asyncio.timeout(30):
            while seen < 1000:
                seen += len(await consumer.poll(timeout_ms=500))


if __name__ == "__main__":
    asyncio.run(_load({"bootstrap.servers": sys.argv[1]}, real_runtime()))

"""Transactions told against production brokers: who writes, and what readers of committed records see."""

from __future__ import annotations

import asyncio
import contextlib

from tidelog.client import Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def producer_config(cluster: SimulatedCluster, **settings: str) -> ProducerConfig:
    """A producer called `orders`, unless the test says otherwise."""
    common = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "orders"}
    return ProducerConfig.from_properties(common | _named(settings))


def consumer_config(cluster: SimulatedCluster, **settings: str) -> ConsumerConfig:
    """A reader of committed records, from the beginning."""
    common = {
        "bootstrap.servers": cluster.bootstrap,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    return ConsumerConfig.from_properties(common | _named(settings))


async def committed_values(cluster: SimulatedCluster, runtime: Runtime, *partitions: TopicPartition) -> list[bytes]:
    """Everything that was committed, partition after partition, as of now."""
    async with Consumer.connect(consumer_config(cluster), runtime) as consumer:
        consumer.assign(partitions or (T0,))
        ends = await consumer.end_offsets(partitions or (T0,))
        found: dict[TopicPartition, list[bytes]] = {each: [] for each in ends}
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            for record in await consumer.poll(timeout_ms=1_000):
                found[record.topic_partition].append(record.value or b"")
        return [value for values in found.values() for value in values]


async def pass_time(duration_ms: float) -> None:
    """Do nothing for so long, on the simulated clock."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(duration_ms / 1000):
            await asyncio.get_running_loop().create_future()


async def write(producer: Producer, *values: bytes, partition: int = 0) -> None:
    """Send without waiting for anything but room."""
    for value in values:
        await producer.send("t", value, partition=partition)

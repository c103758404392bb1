"""What clients do to a simulated broker, and what they were promised."""

from __future__ import annotations

import asyncio

from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.client import NewTopic as WantedTopic
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

FLUSHED = {"log.flush.interval.messages": "1"}
T0 = TopicPartition("t", 0)


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def properties(cluster: SimulatedCluster, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap, **_named(more)}


def create_topic(cluster: SimulatedCluster, *, topic: str = "t", **configs: str) -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            (result,) = await admin.create_topics(
                [WantedTopic(name=topic, partition_count=1, replication_factor=1, configs=_named(configs))]
            )
            assert result.is_ok, result

    cluster.tell(story)


def delete_topic(cluster: SimulatedCluster, topic: str) -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            (result,) = await admin.delete_topics([topic])
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


def keyed(cluster: SimulatedCluster, *, end: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """(key, value) by offset of everything that is left below `end`."""

    async def story(runtime: Runtime) -> dict[int, tuple[bytes | None, bytes | None]]:
        config = ConsumerConfig.from_properties(properties(cluster, auto_offset_reset="earliest"))
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            found: dict[int, tuple[bytes | None, bytes | None]] = {}
            async with asyncio.timeout(600):
                while max(found, default=-1) < end - 1:
                    found |= {
                        record.offset: (record.key, record.value) for record in await consumer.poll(timeout_ms=1000)
                    }
            return found

    return cluster.tell(story)

"""What clients do to several simulated brokers, what they were promised, and what lies on each replica afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, TypeVar

import pytest

from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import (
    Admin,
    ClientConfig,
    ClientError,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    ProducerConfig,
)
from tidelog.client.connection import ConnectionLimits, open_connection
from tidelog.controller import layout
from tidelog.model import BrokerId, TopicPartition
from tidelog.records import read_records
from tidelog.runtime import Address, Runtime
from tidelog.simulation.checkers import AcknowledgedStays
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.api import Request, Response

R = TypeVar("R", bound=Response)

T0 = TopicPartition("t", 0)
SAFE = {"min.insync.replicas": "2"}
LIMITS: Final = ConnectionLimits(
    client_id="test", setup_timeout_ms=5_000, request_timeout_ms=30_000, in_flight_max=5, receive_bytes_max=1 << 24
)
LAB = {"tidelog.lab.enable": "true", "replication.truncation": "high-watermark"}

# A killed process runs no `finally`; Python says so when its coroutines, which would have liked to, are thrown away.
kills = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def make_topic(
    cluster: SimulatedCluster,
    replicas: Sequence[BrokerId],
    configs: Mapping[str, str] | None = None,
    *,
    name: str = "t",
) -> None:
    """One partition on these brokers, the first of which leads."""

    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            (result,) = await admin.create_topics(
                [NewTopic(name=name, assignment={0: tuple(replicas)}, configs=dict(configs or {}))]
            )
            assert result.is_ok, result

    cluster.until_ready()
    cluster.tell(story)


def produce(cluster: SimulatedCluster, value: bytes, *, acks: str = "all", timeout_ms: int = 30_000) -> int:
    """The offset at which a record was acknowledged. Raises ClientError."""

    async def story(runtime: Runtime) -> int:
        config = ProducerConfig.from_properties(
            properties(
                cluster,
                acks=acks,
                enable_idempotence="false",
                linger_ms="0",
                delivery_timeout_ms=str(timeout_ms),
                request_timeout_ms=str(timeout_ms),
            )
        )
        async with Producer.connect(config, runtime) as producer:
            return (await (await producer.send("t", value, partition=0))).offset

    return cluster.tell(story)


class Load:
    """A producer with acks=all that never stops by itself, and what it was promised."""

    def __init__(self, cluster: SimulatedCluster, *, partitions: int = 1, **settings: str) -> None:
        self.acknowledged = AcknowledgedStays()
        self._cluster = cluster
        self._partitions = partitions
        self._settings = settings
        self._is_over = False
        self._task = cluster.client.spawn(self._write(cluster.client.runtime))

    async def _write(self, runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(
            properties(self._cluster, linger_ms="1", delivery_timeout_ms="3600000", **self._settings)
        )
        number = 0
        async with Producer.connect(config, runtime) as producer:
            while not self._is_over:
                values = [(number + n) for n in range(5)]
                sending = [
                    (value, await producer.send("t", b"%d" % value, partition=value % self._partitions))
                    for value in values
                ]
                number += len(values)
                for value, future in sending:
                    try:
                        offset = (await future).offset
                    except ClientError:
                        continue
                    self.acknowledged.acknowledge(TopicPartition("t", value % self._partitions), offset, b"%d" % value)
                await passed(0.01)

    def until_more(self, count: int = 20, *, within_ms: float = 120_000) -> None:
        """So many more records are acknowledged: the load goes on."""
        wanted = self.acknowledged.count + count
        self._cluster.until(
            lambda: self.acknowledged.count >= wanted, f"{count} more records acknowledged", within_ms=within_ms
        )

    def stop(self) -> None:
        """No more records; wait for those under way."""
        self._is_over = True

        async def finished() -> None:
            await self._task

        self._cluster.world.run(finished())


def heal(cluster: SimulatedCluster, *topic_partitions: TopicPartition) -> None:
    """End every fault, start everybody, and wait until each partition has all its replicas in sync and equal."""
    cluster.world.fabric.faults.heal()
    cluster.store.heal()
    for broker in cluster.brokers.values():
        if not broker.node.is_running:
            broker.restart()
        elif broker.node.process.is_paused:
            broker.resume()
    for topic_partition in topic_partitions or (T0,):
        _until_whole(cluster, topic_partition)


def _until_whole(cluster: SimulatedCluster, topic_partition: TopicPartition) -> None:
    cluster.until(lambda: is_whole(cluster, topic_partition), f"{topic_partition} is whole", within_ms=120_000)


def is_whole(cluster: SimulatedCluster, topic_partition: TopicPartition) -> bool:
    """Whether all replicas are in the ISR, lead and follow in one epoch, and end where the leader ends."""
    return cluster.snapshot().is_whole(topic_partition)


def contents(cluster: SimulatedCluster, broker_id: BrokerId, topic_partition: TopicPartition = T0) -> dict[int, bytes]:
    """Every record in a running broker's log, committed or not."""
    found: dict[int, bytes] = {}
    for partition in cluster.brokers[broker_id].partitions():
        if partition.topic_partition == topic_partition:
            log = partition.log
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                data = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
                for record in read_records(data, max_bytes=1 << 24):
                    found[record.offset] = record.value or b""
                offset = max(found) + 1
    return found


def check_promises(cluster: SimulatedCluster, load: Load) -> None:
    """I1 on every replica, after healing: each acknowledged record lies at its offset, and nowhere else."""
    assert load.acknowledged.count > 0
    for topic_partition in load.acknowledged.promised:
        for broker_id in cluster.state(topic_partition).assignment:
            found = contents(cluster, broker_id, topic_partition)
            assert not list(load.acknowledged.missing(topic_partition, found)), f"broker {broker_id}"


def end_well(cluster: SimulatedCluster, load: Load) -> None:
    """No more load and no more faults: the cluster becomes whole, and every promise was kept."""
    load.stop()
    heal(cluster)
    check_promises(cluster, load)


def consumed(cluster: SimulatedCluster, *, end: int, topic_partition: TopicPartition = T0) -> dict[int, bytes]:
    """What a consumer reads from the beginning up to `end`."""

    async def story(runtime: Runtime) -> dict[int, bytes]:
        config = ConsumerConfig.from_properties(properties(cluster, auto_offset_reset="earliest"))
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([topic_partition])
            found: dict[int, bytes] = {}
            async with asyncio.timeout(600):
                while max(found, default=-1) < end - 1:
                    found |= {record.offset: record.value or b"" for record in await consumer.poll(timeout_ms=1000)}
            return found

    return cluster.tell(story)


def talk(
    cluster: SimulatedCluster, broker_id: BrokerId, request: Request[R], version: int | None = None
) -> Callable[[Runtime], Coroutine[None, None, R]]:
    """How a client asks one broker."""
    node = cluster.store.tree.peek(layout.broker_path(broker_id))
    assert node is not None
    endpoint = layout.decode_broker(broker_id, node).endpoints["PLAINTEXT"]

    async def story(runtime: Runtime) -> R:
        connection = await open_connection(runtime.network, Address(endpoint.host, endpoint.port), LIMITS)
        try:
            return await connection.request(request, version=version)
        finally:
            connection.close()

    return story


def ask(cluster: SimulatedCluster, broker_id: BrokerId, request: Request[R], version: int | None = None) -> R:
    """Ask one broker. Raises ConnectionLost."""
    return cluster.tell(talk(cluster, broker_id, request, version))

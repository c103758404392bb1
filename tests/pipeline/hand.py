"""What a test does to the cluster by hand, beside Spark: make topics, send, read, look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, NamedTuple, TypeVar

from tidelog.client import (
    Admin,
    ClientConfig,
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    MorePartitions,
    NewTopic,
    Producer,
    ProducerConfig,
    TopicMetadata,
)
from tidelog.client.bridge import Bridge
from tidelog.model import ErrorCode, IsolationLevel, Offset, TopicPartition
from tidelog.records.record import RecordHeader
from tidelog.runtime.real import real_runtime

T = TypeVar("T")

PATIENCE_S: Final = 60.0


class Row(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[RecordHeader] = ()


class Undecided:
    """A transaction that was left open."""

    def __init__(self, bridge: Bridge, producer: Producer) -> None:
        self._bridge = bridge
        self._producer = producer

    def commit(self) -> None:
        self._bridge.run(self._producer.commit_transaction(), timeout_s=PATIENCE_S)

    def abort(self) -> None:
        self._bridge.run(self._producer.abort_transaction(), timeout_s=PATIENCE_S)


class Hand:
    """A client of the cluster for callers that block. Every call opens its own clients, and closes them. Close it at the end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._bridge = Bridge()
        self._runtime = real_runtime()
        self._common = {"bootstrap.servers": bootstrap}

    def close(self) -> None:
        self._bridge.close()

    def create(
        self,
        topic: str,
        partition_count: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> str:
        """Create a topic, wait until all brokers know it, and return its name."""
        new = NewTopic(
            name=topic,
            partition_count=-1 if assignment else partition_count,
            assignment=assignment or {},
            configs=configs or {},
        )

        async def create(admin: Admin) -> None:
            (result,) = await admin.create_topics([new])
            assert result.is_ok, result

        self._with_admin(create)
        return topic

    def delete(self, topic: str) -> None:
        async def delete(admin: Admin) -> None:
            (result,) = await admin.delete_topics([topic])
            assert result.is_ok, result

        self._with_admin(delete)

    def grow(self, topic: str, partition_count: int) -> None:
        async def grow(admin: Admin) -> None:
            (result,) = await admin.create_partitions([MorePartitions(name=topic, total_count=partition_count)])
            assert result.is_ok, result

        self._with_admin(grow)

    def delete_records(self, topic: str, before: Mapping[int, Offset]) -> None:
        async def delete(admin: Admin) -> None:
            wanted = {TopicPartition(topic, index): offset for index, offset in before.items()}
            assert await admin.delete_records(wanted) == wanted

        self._with_admin(delete)

    def describe(self, topic: str) -> TopicMetadata | ErrorCode:
        async def look(admin: Admin) -> TopicMetadata | ErrorCode:
            return (await admin.describe_topics([topic]))[topic]

        return self._with_admin(look)

    def broker_count(self) -> int:
        """How many brokers the cluster says it has."""

        async def look(admin: Admin) -> int:
            return len((await admin.describe_cluster()).brokers)

        return self._with_admin(look)

    def cluster_id(self) -> str:
        """The id of the cluster."""

        async def look(admin: Admin) -> str:
            return (await admin.describe_cluster()).cluster_id or ""

        return self._with_admin(look)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; -1 while none does."""
        found = self.describe(topic)
        return found.partitions[partition].leader.broker_id if isinstance(found, TopicMetadata) else -1

    def send(self, topic: str, rows: Iterable[Row | bytes], **settings: str) -> list[Offset]:
        """Send records, in order, and wait until they are acknowledged; their offsets. Settings are the producer's, `_` for `.`."""

        async def send() -> list[Offset]:
            config = ProducerConfig.from_properties({**self._common, **_properties(settings)})
            async with Producer.connect(config, self._runtime) as producer:
                return await _send(producer, topic, rows)

        return self._bridge.run(send(), timeout_s=PATIENCE_S)

    def send_transaction(
        self, topic: str, rows: Iterable[Row | bytes], *, transactional_id: str, commits: bool = True
    ) -> list[Offset]:
        """Send records in one transaction, and commit or abort it."""

        async def send() -> list[Offset]:
            properties = {**self._common, "transactional.id": transactional_id}
            async with Producer.connect(ProducerConfig.from_properties(properties), self._runtime) as producer:
                offsets = await _begin(producer, topic, rows)
                await (producer.commit_transaction() if commits else producer.abort_transaction())
                return offsets

        return self._bridge.run(send(), timeout_s=PATIENCE_S)

    @contextmanager
    def open_transaction(
        self, topic: str, rows: Iterable[Row | bytes], *, transactional_id: str
    ) -> Iterator[Undecided]:
        """Send records in a transaction and leave it open; what is undecided at the end of the block is aborted."""
        properties = {**self._common, "transactional.id": transactional_id}
        with Bridge() as bridge:
            producer = bridge.hold(Producer.connect(ProducerConfig.from_properties(properties), self._runtime))
            bridge.run(_begin(producer, topic, rows), timeout_s=PATIENCE_S)
            yield Undecided(bridge, producer)

    def read(self, topic: str, *, committed_only: bool = True) -> list[ConsumedRecord]:
        """All records of a topic, partition by partition, up to where it ends now."""

        async def read() -> list[ConsumedRecord]:
            async with self._consumer(committed_only) as consumer:
                partitions = await self._partitions(topic)
                ends = await consumer.end_offsets(partitions)
                consumer.assign(partitions)
                consumer.seek_to_beginning()
                records: list[ConsumedRecord] = []
                while any([await consumer.position(each) < ends[each] for each in partitions]):
                    records += await consumer.poll(max_records=10_000, timeout_ms=500)
                return sorted(records, key=lambda record: (record.topic_partition, record.offset))

        return self._bridge.run(read(), timeout_s=PATIENCE_S)

    def end_offsets(self, topic: str, *, committed_only: bool = True) -> dict[int, Offset]:
        """Where each partition ends: the last stable offset, or the high watermark."""

        async def look() -> dict[int, Offset]:
            async with self._consumer(committed_only) as consumer:
                ends = await consumer.end_offsets(await self._partitions(topic))
                return {key.index: offset for key, offset in sorted(ends.items())}

        return self._bridge.run(look(), timeout_s=PATIENCE_S)

    def _consumer(self, committed_only: bool) -> AbstractAsyncContextManager[Consumer]:
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        properties = {**self._common, "isolation.level": level.name.lower(), "allow.auto.create.topics": "false"}
        return Consumer.connect(ConsumerConfig.from_properties(properties), self._runtime)

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        async with Admin.connect(ClientConfig.from_properties(self._common), self._runtime) as admin:
            found = (await admin.describe_topics([topic]))[topic]
            assert isinstance(found, TopicMetadata), found
            return [TopicPartition(topic, partition.index) for partition in found.partitions]

    def _with_admin(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with Admin.connect(ClientConfig.from_properties(self._common), self._runtime) as admin:
                return await work(admin)

        return self._bridge.run(connected(), timeout_s=PATIENCE_S)


async def _begin(producer: Producer, topic: str, rows: Iterable[Row | bytes]) -> list[Offset]:
    await producer.init_transactions()
    producer.begin_transaction()
    return await _send(producer, topic, rows)


async def _send(producer: Producer, topic: str, rows: Iterable[Row | bytes]) -> list[Offset]:
    records = [row if isinstance(row, Row) else Row(row) for row in rows]
    futures = [
        await producer.send(
            topic,
            row.value,
            key=row.key,
            partition=row.partition,
            timestamp_ms=row.timestamp_ms,
            headers=row.headers,
        )
        for row in records
    ]
    await producer.flush()
    return [metadata.offset for metadata in await asyncio.gather(*futures)]


def _properties(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}

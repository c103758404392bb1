"""Our client against Apache Kafka: what we send is what Kafka understands, and the other way round."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TypeVar

import confluent_kafka
import pytest

from tests.compatibility.apache_kafka import KafkaProcess
from tidelog.client import (
    Admin,
    ClientConfig,
    Cluster,
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    Lane,
    NewTopic,
    OffsetOutOfRange,
    ProduceFailed,
    Producer,
    ProducerConfig,
    TopicMetadata,
    TopicUnavailable,
)
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime
from tidelog.wire.api import API_TABLE, ApiKey

pytestmark = [pytest.mark.compat, pytest.mark.slow]

T = TypeVar("T")
FOR_CLIENTS = {key: api.served.high for key, api in API_TABLE.items() if not api.is_broker_only and not api.is_private}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class OurClient:
    """Our client on a real loop, pointed at one Kafka."""

    def __init__(self, runtime: Runtime, bootstrap: str) -> None:
        self.runtime = runtime
        self._where = {"bootstrap.servers": bootstrap}

    def run(self, story: Coroutine[None, None, T]) -> T:
        return asyncio.run(asyncio.wait_for(story, 90))

    def client(self, **settings: str) -> ClientConfig:
        return ClientConfig.from_properties(self._where | _named(settings))

    def producer(self, **settings: str) -> ProducerConfig:
        return ProducerConfig.from_properties(self._where | _named(settings))

    def consumer(self, **settings: str) -> ConsumerConfig:
        return ConsumerConfig.from_properties(self._where | {"auto.offset.reset": "earliest"} | _named(settings))

    async def create(self, topic: str, *, partitions: int = 1, **configs: str) -> None:
        async with Admin.connect(self.client(), self.runtime) as admin:
            new = NewTopic(name=topic, partition_count=partitions, replication_factor=1, configs=_named(configs))
            (result,) = await admin.create_topics([new])
            assert result.is_ok, result

    async def read(self, count: int, *partitions: TopicPartition, **settings: str) -> list[ConsumedRecord]:
        async with Consumer.connect(self.consumer(**settings), self.runtime) as consumer:
            consumer.assign(partitions)
            return [await anext(consumer) for _ in range(count)]


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@pytest.fixture
def ours(kafka: KafkaProcess) -> Iterator[OurClient]:
    runtime = real_runtime()
    yield OurClient(runtime, kafka.bootstrap)
    runtime.disk.close()


def test_the_newest_versions_of_both_sides_are_spoken(ours: OurClient) -> None:
    async def story() -> dict[ApiKey, int]:
        async with Cluster(ours.client(), ours.runtime) as cluster:
            await cluster.refresh()
            connection = await cluster.connect(next(iter(cluster.metadata.brokers)), Lane.CONTROL)
            return {key: connection.version_of(key) for key in FOR_CLIENTS}

    # Kafka keeps the newest version of this one to itself: prepared transactions (KIP-939) are not released yet.
    assert ours.run(story()) == {**FOR_CLIENTS, ApiKey.INIT_PRODUCER_ID: 5}


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_keeps_what_we_produce(ours: OurClient, topic: str, codec: str) -> None:
    headers = (("h", b"1"), ("empty", b""), ("null", None))
    contents = [(b"k", b"v" * 500), (None, b"v"), (b"k", None), (None, None)]

    async def story() -> None:
        await ours.create(topic)
        async with Producer.connect(ours.producer(compression_type=codec), ours.runtime) as producer:
            futures = [
                await producer.send(topic, value, key=key, timestamp_ms=123_456, headers=headers)
                for key, value in contents
            ]
        assert [(await future).offset for future in futures] == [0, 1, 2, 3]
        records = await ours.read(4, TopicPartition(topic, 0))
        assert [(record.key, record.value) for record in records] == contents
        assert {record.headers for record in records} == {headers}
        assert {record.timestamp_ms for record in records} == {123_456}

    ours.run(story())


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_librdkafka_produces(ours: OurClient, kafka: KafkaProcess, topic: str, codec: str) -> None:
    ours.run(ours.create(topic))
    librdkafka = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec})
    for index in range(50):
        librdkafka.produce(topic, b"%d" % index * 20, partition=0)
    librdkafka.flush(10)
    records = ours.run(ours.read(50, TopicPartition(topic, 0)))
    assert [record.value for record in records] == [b"%d" % index * 20 for index in range(50)]


def test_aborted_transactions_are_not_handed_out(ours: OurClient, kafka: KafkaProcess, topic: str) -> None:
    ours.run(ours.create(topic))
    librdkafka = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    librdkafka.init_transactions(20)
    for name, ends in (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "abort"), ("e", "commit")):
        librdkafka.begin_transaction()
        for index in range(3):
            librdkafka.produce(topic, f"{name}{index}".encode(), partition=0)
        if ends == "commit":
            librdkafka.commit_transaction(20)
        else:
            librdkafka.flush(10)
            librdkafka.abort_transaction(20)
    partition = TopicPartition(topic, 0)
    committed = ours.run(ours.read(9, partition, isolation_level="read_committed"))
    assert [str(record.value, "ascii") for record in committed if record.value] == [
        f"{name}{index}" for name in "ace" for index in range(3)
    ]
    assert [record.offset for record in committed] == [0, 1, 2, 8, 9, 10, 16, 17, 18]
    assert len(ours.run(ours.read(15, partition))) == 15


def test_ten_thousand_records_over_many_partitions_keep_their_order(ours: OurClient, topic: str) -> None:
    async def story() -> None:
        await ours.create(topic, partitions=12)
        async with Producer.connect(ours.producer(linger_ms="0", batch_size="2000"), ours.runtime) as producer:
            for index in range(10_000):
                await producer.send(topic, b"%d" % index, key=b"%d" % (index % 100))
        partitions = [TopicPartition(topic, index) for index in range(12)]
        settings = {"max_partition_fetch_bytes": "5000", "fetch_max_bytes": "20000"}
        by_key: dict[bytes | None, list[int]] = {}
        for record in await ours.read(10_000, *partitions, **settings):
            by_key.setdefault(record.key, []).append(int(record.value or b""))
        assert len(by_key) == 100
        assert all(numbers == sorted(numbers) for numbers in by_key.values())

    ours.run(story())


def test_our_keys_go_where_librdkafkas_murmur2_sends_them(ours: OurClient, kafka: KafkaProcess, topic: str) -> None:
    keys = [b"key-%d" % index for index in range(200)]

    async def story() -> dict[bytes, int]:
        await ours.create(topic, partitions=7)
        async with Producer.connect(ours.producer(), ours.runtime) as producer:
            futures = {key: await producer.send(topic, b"ours", key=key) for key in keys}
            return {key: (await future).topic_partition.index for key, future in futures.items()}

    mine, theirs = ours.run(story()), dict[bytes | None, int | None]()

    def note(_: object, sent: confluent_kafka.Message) -> None:
        theirs[sent.key()] = sent.partition()

    librdkafka = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        librdkafka.produce(topic, b"theirs", key=key, on_delivery=note)
    librdkafka.flush(10)
    assert mine == theirs


def test_offsets_are_found_by_end_and_by_time(ours: OurClient, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        await ours.create(topic)
        async with Producer.connect(ours.producer(), ours.runtime) as producer:
            for timestamp_ms in (1000, 2000, 3000):
                await producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
        async with Consumer.connect(ours.consumer(auto_offset_reset="none"), ours.runtime) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 3}
            found = (await consumer.offsets_for_times({partition: 1500}))[partition]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (1, 2000)
            assert await consumer.offsets_for_times({partition: 9999}) == {partition: None}
            consumer.assign([partition])
            consumer.seek(partition, 99)
            with pytest.raises(OffsetOutOfRange):
                await consumer.poll(timeout_ms=5000)

    ours.run(story())


def test_a_batch_too_large_for_the_topic_is_split_and_a_record_fails(ours: OurClient, topic: str) -> None:
    async def story() -> None:
        await ours.create(topic, max_message_bytes="300")
        async with Producer.connect(ours.producer(), ours.runtime) as producer:
            futures = [await producer.send(topic, b"x" * 50) for _ in range(20)]
            assert [(await future).offset for future in futures] == list(range(20))
            with pytest.raises(ProduceFailed, match="MESSAGE_TOO_LARGE"):
                await producer.send_and_wait(topic, b"x" * 1000)
            assert (await producer.send_and_wait(topic, b"x")).offset == 20

    ours.run(story())


def test_topics_come_and_go(ours: OurClient, topic: str) -> None:
    async def story() -> None:
        await ours.create(topic, partitions=3)
        async with Admin.connect(ours.client(), ours.runtime) as admin:
            assert topic in await admin.list_topics()
            described = await admin.describe_topics([topic, "nope"])
            found = described[topic]
            assert isinstance(found, TopicMetadata)
            assert found.has_all_leaders
            assert described["nope"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            (deleted,) = await admin.delete_topics([topic])
            assert deleted.is_ok
            assert topic not in await admin.list_topics()
        async with Producer.connect(ours.producer(), ours.runtime) as producer:
            with pytest.raises(TopicUnavailable, match="INVALID_TOPIC_EXCEPTION"):
                await producer.send("no/slash", b"v")

    ours.run(story())

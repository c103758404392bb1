"""Stock Python clients against a broker as a user starts it: every codec, headers, nulls, timestamps, idempotence."""

from __future__ import annotations

import asyncio
from typing import cast

import aiokafka
import kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.conversation import Conversation
from tests.broker.test_fetch_behaviour import fetch
from tests.compatibility.message import BASE_TIMESTAMP_MS, CODECS, Message, messages
from tests.compatibility.processes import TidelogProcess
from tidelog.records import headers


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_it_wrote(tidelog: TidelogProcess, topic: str, codec: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, codec, messages())
    assert confluent_consume(tidelog.bootstrap, topic, len(messages())) == messages()
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_what_it_wrote(tidelog: TidelogProcess, topic: str, codec: str) -> None:
    kafka_python_produce(tidelog.bootstrap, topic, codec, messages())
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}
    assert kafka_python_consume(tidelog.bootstrap, topic, len(messages())) == messages()


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_it_wrote(tidelog: TidelogProcess, topic: str, codec: str) -> None:
    asyncio.run(aiokafka_produce(tidelog.bootstrap, topic, codec, messages()))
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}
    assert asyncio.run(aiokafka_consume(tidelog.bootstrap, topic, len(messages()))) == messages()


@pytest.mark.slow
def test_what_one_client_wrote_the_others_read(tidelog: TidelogProcess, topic: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, "lz4", messages())
    assert kafka_python_consume(tidelog.bootstrap, topic, len(messages())) == messages()
    assert asyncio.run(aiokafka_consume(tidelog.bootstrap, topic, len(messages()))) == messages()


@pytest.mark.slow
def test_offsets_by_timestamp_and_watermarks_as_librdkafka_asks_for_them(tidelog: TidelogProcess, topic: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, "none", messages())
    consumer = confluent_consumer(tidelog.bootstrap)
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 54)
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, BASE_TIMESTAMP_MS + 20)], timeout=60)
        assert found.offset == 20
    finally:
        consumer.close()


@pytest.mark.slow
def test_admin_clients_create_describe_and_delete_topics(tidelog: TidelogProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": tidelog.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1, config={"retention.ms": "1000000"})])[
        topic
    ].result(timeout=60)
    assert sorted(admin.list_topics(topic, timeout=60).topics[topic].partitions) == [0, 1, 2]
    admin.delete_topics([topic], operation_timeout=60)[topic].result(timeout=90)
    assert topic not in admin.list_topics(timeout=60).topics


def stored_codecs(bootstrap: str, topic: str) -> set[str]:
    """How the batches of the topic are really compressed, whatever the client was told to do."""
    with Conversation(bootstrap) as conversation:
        (answered,) = conversation.ask(fetch(topic, 0), 12).responses
        return {header.codec.name.lower() for _, header in headers(answered.partitions[0].records or b"")}


def confluent_produce(bootstrap: str, topic: str, codec: str, sent: list[Message]) -> None:
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 50}
    )
    for message in sent:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp=message.timestamp_ms,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []


def confluent_consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})


def confluent_consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = confluent_consumer(bootstrap)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    received: list[Message] = []
    while len(received) < count:
        polled = consumer.consume(count - len(received), timeout=60)
        assert polled, f"{len(received)} of {count} records came"
        for message in polled:
            assert message.error() is None
            headers = cast("tuple[tuple[str, bytes | None], ...]", tuple(message.headers() or ()))
            received.append(Message(message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    return received


def kafka_python_produce(bootstrap: str, topic: str, codec: str, sent: list[Message]) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
        linger_ms=50,
    )
    futures = [
        producer.send(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp_ms=message.timestamp_ms,
            partition=0,
        )
        for message in sent
    ]
    producer.flush(20)
    assert [future.get(timeout=60).offset for future in futures] == list(range(len(sent)))
    producer.close()


def kafka_python_consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=10_000)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    received: list[Message] = []
    for message in consumer:
        received.append(Message(message.key, message.value, tuple(message.headers), message.timestamp))
        if len(received) == count:
            break
    consumer.close()
    return received


async def aiokafka_produce(bootstrap: str, topic: str, codec: str, sent: list[Message]) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, enable_idempotence=True
    )
    await producer.start()
    futures = [
        await producer.send(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp_ms=message.timestamp_ms,
            partition=0,
        )
        for message in sent
    ]
    assert [(await future).offset for future in futures] == list(range(len(sent)))
    await producer.stop()


async def aiokafka_consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(topic, 0)])
    await consumer.seek_to_beginning()
    received: list[Message] = []
    async with asyncio.timeout(20):
        while len(received) < count:
            message = await consumer.getone()
            received.append(Message(message.key, message.value, tuple(message.headers), message.timestamp))
    await consumer.stop()
    return received

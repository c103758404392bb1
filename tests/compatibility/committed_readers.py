"""Stock Python clients that read a partition from its beginning, only what is committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import aiokafka
import kafka
from confluent_kafka import Consumer, TopicPartition

from tests.compatibility.transactional_clients import PATIENCE_S, confluent_read, confluent_reader_settings


class Reader(Protocol):
    """How a partition is read."""

    def __call__(self, bootstrap: str, topic: str, partition: int, *, last: bytes) -> list[bytes]:
        """All values of a partition up to the last one, which must come; only what is committed."""
        ...


def read_by_confluent(
    bootstrap: str, topic: str, partition: int, *, last: bytes, committed: bool = True
) -> list[bytes]:
    """All values of a partition up to the last one, which must come; only what is committed unless told otherwise."""
    settings = confluent_reader_settings(bootstrap, "unused")
    consumer = Consumer({**settings, "isolation.level": "read_committed" if committed else "read_uncommitted"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return _until_last(lambda: [each.value for each in confluent_read(consumer)], last)
    finally:
        consumer.close()


def read_by_kafka_python(bootstrap: str, topic: str, partition: int, *, last: bytes) -> list[bytes]:
    """The same with kafka-python."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), enable_auto_commit=False, isolation_level="read_committed"
    )
    place = kafka.TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    try:
        return _until_last(lambda: [one.value for one in consumer.poll(timeout_ms=200).get(place, [])], last)
    finally:
        consumer.close(autocommit=False)


def read_by_aiokafka(bootstrap: str, topic: str, partition: int, *, last: bytes) -> list[bytes]:
    """The same with aiokafka."""

    async def read() -> list[bytes]:
        place = aiokafka.TopicPartition(topic, partition)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        consumer.assign([place])
        values: list[bytes] = []
        try:
            await consumer.seek_to_beginning(place)
            async with asyncio.timeout(PATIENCE_S):
                while last not in values:
                    found = await consumer.getmany(place, timeout_ms=200)
                    values += [one.value for one in found.get(place, [])]
        finally:
            await consumer.stop()
        return values

    return asyncio.run(read())


READERS: Final[Mapping[str, Reader]] = {
    "confluent": read_by_confluent,
    "kafka-python": read_by_kafka_python,
    "aiokafka": read_by_aiokafka,
}


def _until_last(read: Callable[[], list[bytes]], last: bytes) -> list[bytes]:
    values: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while last not in values:
        assert time.monotonic() < deadline_s, f"read {values[-20:]} and not {last!r}"
        values += read()
    return values

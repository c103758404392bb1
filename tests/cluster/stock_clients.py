"""Stock Python clients behind one face: each a producer and a reader of one partition, configured with bootstrap servers only.

The one thing said besides is acks=all, where it is not the client's own default: without it a client agrees to lose records.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Iterable
from typing import Any, Final, Protocol

import aiokafka
import kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

_PATIENCE_S: Final = 60


class StockClient(Protocol):
    """Sends to, and reads from, partition 0 of a topic."""

    def begin(self, values: Iterable[bytes]) -> None:
        """Hand records over to be sent, without waiting for them."""
        ...

    def finish(self) -> dict[int, bytes]:
        """Wait until all that was begun is delivered; the values by their offsets, as the client was told."""
        ...

    def read(self, end_offset: int) -> dict[int, bytes]:
        """Go on reading up to an offset; the values of all offsets read so far."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class Confluent:
    """confluent-kafka, on librdkafka."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._delivered: dict[int, bytes] = {}
        self._failures: list[KafkaError] = []
        self._read: dict[int, bytes] = {}

    def begin(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)

    def finish(self) -> dict[int, bytes]:
        assert self._producer.flush(_PATIENCE_S) == 0
        assert not self._failures, self._failures
        return self._delivered

    def read(self, end_offset: int) -> dict[int, bytes]:
        deadline_s = time.monotonic() + _PATIENCE_S
        while end_offset - 1 not in self._read:
            assert time.monotonic() < deadline_s, f"read {len(self._read)} of {end_offset}"
            for message in self._consumer.consume(1000, timeout=0.2):
                offset, value = message.offset(), message.value()
                if message.error() is None and offset is not None and value is not None:
                    self._read[offset] = value
        return self._read

    def close(self) -> None:
        self._consumer.close()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is not None or offset is None or value is None:
            self._failures += [] if error is None else [error]
        else:
            self._delivered[offset] = value


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        servers = bootstrap.split(",")
        self._producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
        self._consumer = kafka.KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
        self._place = kafka.TopicPartition(topic, 0)
        self._consumer.assign([self._place])
        self._consumer.seek_to_beginning(self._place)
        self._begun: list[tuple[Any, bytes]] = []
        self._read: dict[int, bytes] = {}

    def begin(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._begun.append((self._producer.send(self._topic, value, partition=0), value))

    def finish(self) -> dict[int, bytes]:
        return {future.get(timeout=_PATIENCE_S).offset: value for future, value in self._begun}

    def read(self, end_offset: int) -> dict[int, bytes]:
        deadline_s = time.monotonic() + _PATIENCE_S
        while end_offset - 1 not in self._read:
            assert time.monotonic() < deadline_s, f"read {len(self._read)} of {end_offset}"
            for records in self._consumer.poll(timeout_ms=200).values():
                self._read |= {record.offset: record.value for record in records}
        return self._read

    def close(self) -> None:
        self._producer.close(timeout=5)
        self._consumer.close(autocommit=False)
        close_unconnected()


def close_unconnected() -> None:
    """Close what kafka-python forgets to: sockets on which nobody answered, which connecting has bound to no address of ours."""
    for each in gc.get_objects():
        # Not isinstance, which would ask a weak proxy for what it stands for, and that may be gone.
        if not issubclass(type(each), socket.socket):
            continue
        if each.fileno() >= 0 and each.family is socket.AF_INET:
            host, port = each.getsockname()
            if host == "0.0.0.0" and port and not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):  # noqa: S104
                each.close()


class Aiokafka:
    """aiokafka, on a loop that runs while somebody waits."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._place = aiokafka.TopicPartition(topic, 0)
        self._begun: list[tuple[asyncio.Future[Any], bytes]] = []
        self._read: dict[int, bytes] = {}
        self._runner.run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> None:
        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        await self._producer.start()
        self._consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await self._consumer.start()
        self._consumer.assign([self._place])
        await self._consumer.seek_to_beginning(self._place)

    def begin(self, values: Iterable[bytes]) -> None:
        async def begin() -> None:
            for value in values:
                self._begun.append((await self._producer.send(self._topic, value, partition=0), value))

        self._runner.run(begin())

    def finish(self) -> dict[int, bytes]:
        async def finish() -> dict[int, bytes]:
            async with asyncio.timeout(_PATIENCE_S):
                return {(await future).offset: value for future, value in self._begun}

        return self._runner.run(finish())

    def read(self, end_offset: int) -> dict[int, bytes]:
        async def read() -> None:
            async with asyncio.timeout(_PATIENCE_S):
                while end_offset - 1 not in self._read:
                    for records in (await self._consumer.getmany(self._place, timeout_ms=200)).values():
                        self._read.update({record.offset: record.value for record in records})

        self._runner.run(read())
        return self._read

    def close(self) -> None:
        async def close() -> None:
            await self._producer.stop()
            await self._consumer.stop()

        self._runner.run(close())
        self._runner.close()

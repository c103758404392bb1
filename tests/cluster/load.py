"""A load that never stops, in a thread of its own: acks=all, idempotent, every value once, and a book of what was promised.

There are two: with our own client, and with librdkafka. Each asks as little as it can of the machine: a record per partition every
hundredth of a second, as long as the partition keeps up. What is in flight is bounded per partition, so that one partition that stands
still does not hold up the others.

librdkafka gives itself a new epoch when a batch was overtaken by the next one, as when the answer of an old leader does not come in time
and the new leader rightly finds the next batch out of order. All that is not acknowledged is then numbered anew, also what is in the log
already: in another epoch a value may be there again. Our client, like Kafka's own, sends the overtaken batch again instead.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from typing import Final, Self

import confluent_kafka

from tidelog.client import ClientError, Producer, ProducerConfig, RecordMetadata
from tidelog.runtime.real import real_runtime

_PERIOD_S: Final = 0.01
_IN_FLIGHT_MAX: Final = 100  # per partition
_FAILURES_KEPT: Final = 10
_UNKNOWN_OFFSET: Final = -1  # a retry was answered DUPLICATE_SEQUENCE_NUMBER: the record is there, nobody says where
_FLUSH_TIMEOUT_S: Final = 50
_OWN_SETTINGS: Final = {
    "acks": "all",
    "enable.idempotence": "true",
    "linger.ms": "2",
    "request.timeout.ms": "2000",
    "delivery.timeout.ms": "300000",
    "reconnect.backoff.max.ms": "500",
}
_LIBRDKAFKA_SETTINGS: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.timeout.ms": 300_000,
    # A broker that was stopped says nothing for as long as nobody asks it to go on: do not wait longer than that.
    "request.timeout.ms": 2_000,
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "log_level": 0,  # that brokers are gone is no news here
}


class _Book:
    """What was promised of one partition: pairs of offset and number, 16 bytes each, and when it last was."""

    def __init__(self, now_s: float) -> None:
        self.sent = 0
        self.numbers = array("q")
        self.offsets = array("q")
        self.last_s = now_s
        self.longest_gap_s = 0.0

    def note(self, offset: int, number: int, now_s: float) -> None:
        self.offsets.append(offset)
        self.numbers.append(number)
        self.longest_gap_s = max(self.longest_gap_s, now_s - self.last_s)
        self.last_s = now_s


class Load(ABC):
    """Runs while its context lasts; leaving it waits until everything that was sent is acknowledged."""

    numbers_anew = False
    """Whether the client may write a value again, in another producer epoch."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._books = [_Book(time.monotonic()) for _ in range(partition_count)]
        self._number = 0
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_ending.set()
        self._thread.join(_FLUSH_TIMEOUT_S + 10)

    @property
    def counts(self) -> list[int]:
        """How many records of each partition are acknowledged by now."""
        return [len(book.offsets) for book in self._books]

    @property
    def unanswered_count(self) -> int:
        """How many records were sent of which nobody has heard."""
        return sum(book.sent - len(book.offsets) for book in self._books)

    def begin_phase(self) -> None:
        """Measure gaps from now on."""
        now_s = time.monotonic()
        for book in self._books:
            book.last_s = now_s
            book.longest_gap_s = 0.0

    def longest_gaps_s(self) -> list[float]:
        """The longest time without an acknowledgement in this phase, of each partition; one that lasts counts, too."""
        now_s = time.monotonic()
        return [max(book.longest_gap_s, now_s - book.last_s) for book in self._books]

    def acknowledged(self, partition: int) -> Iterator[tuple[int | None, bytes]]:
        """Offset and value of each promise; the offset is None where the client was only told that the record is there."""
        book = self._books[partition]
        for offset, number in zip(book.offsets, book.numbers, strict=True):
            yield (None if offset == _UNKNOWN_OFFSET else offset), b"%d" % number

    @abstractmethod
    def _run(self) -> None:
        """Send until told to end, then wait for what is under way."""

    def _due(self) -> Iterator[tuple[int, int]]:
        """Partition and number of each record to be sent now."""
        for partition, book in enumerate(self._books):
            if book.sent - len(book.offsets) < _IN_FLIGHT_MAX:
                yield partition, self._number
                self._number += 1
                book.sent += 1

    def _note(self, partition: int, offset: int, number: int) -> None:
        self._books[partition].note(offset, number, time.monotonic())

    def _note_failure(self, partition: int | None, number: object, error: object) -> None:
        if len(self.failures) < _FAILURES_KEPT:
            self.failures.append(f"{number} in {self._topic}-{partition}: {error}")


class OwnLoad(Load):
    """With our own client."""

    def _run(self) -> None:
        asyncio.run(self._send_on())

    async def _send_on(self) -> None:
        runtime = real_runtime()
        config = ProducerConfig.from_properties({"bootstrap.servers": self._bootstrap, **_OWN_SETTINGS})
        try:
            async with Producer.connect(config, runtime) as producer:
                while not await asyncio.to_thread(self._is_ending.wait, _PERIOD_S):
                    for partition, number in self._due():
                        await self._send(producer, partition, number)
                async with asyncio.timeout(_FLUSH_TIMEOUT_S):
                    await producer.flush()
        except (ClientError, TimeoutError) as error:
            self._note_failure(None, "all that follow", error)
        finally:
            runtime.disk.close()

    async def _send(self, producer: Producer, partition: int, number: int) -> None:
        def on_delivery(delivered: asyncio.Future[RecordMetadata]) -> None:
            error = delivered.exception()
            if error is None:
                self._note(partition, delivered.result().offset, number)
            else:
                self._note_failure(partition, number, error)

        sent = await producer.send(self._topic, b"%d" % number, partition=partition)
        sent.add_done_callback(on_delivery)


class LibrdkafkaLoad(Load):
    """With confluent-kafka."""

    numbers_anew = True

    def _run(self) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._bootstrap, **_LIBRDKAFKA_SETTINGS})
        while not self._is_ending.wait(_PERIOD_S):
            for partition, number in self._due():
                producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._on_delivery)
            producer.poll(0)
        producer.flush(_FLUSH_TIMEOUT_S)

    def _on_delivery(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None or partition is None or value is None:
            self._note_failure(partition, value, error)
        else:
            self._note(partition, _UNKNOWN_OFFSET if offset is None else offset, int(value))

"""A load that never stops, in a thread of its own: acks=all, idempotent, every value once, and a book of what was promised.

It asks as little as it can of the machine: a record per partition every hundredth of a second, as long as the partition keeps up. What
is in flight is bounded per partition, so that one partition that stands still does not hold up the others.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

_PERIOD_S: Final = 0.01
_IN_FLIGHT_MAX: Final = 100  # per partition
_FAILURES_KEPT: Final = 10
_UNKNOWN_OFFSET: Final = -1  # a retry was answered DUPLICATE_SEQUENCE_NUMBER: the record is there, nobody says where
_SETTINGS: Final = {
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


class Load:
    """Runs while its context lasts; leaving it waits until everything that was sent is acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, **_SETTINGS})
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
        self._thread.join(60)

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

    def _run(self) -> None:
        while not self._is_ending.wait(_PERIOD_S):
            for partition, book in enumerate(self._books):
                if book.sent - len(book.offsets) < _IN_FLIGHT_MAX:
                    self._send(partition, book)
            self._producer.poll(0)
        self._producer.flush(50)

    def _send(self, partition: int, book: _Book) -> None:
        value = b"%d" % self._number
        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        self._number += 1
        book.sent += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None or partition is None or value is None:
            if len(self.failures) < _FAILURES_KEPT:
                self.failures.append(f"{value!r} in {self._topic}-{partition}: {error}")
            return
        self._books[partition].note(_UNKNOWN_OFFSET if offset is None else offset, int(value), time.monotonic())

"""A batch on its way from the producer to a partition: its records, who waits for them, and what became of each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.client.errors import ClientError
from tidelog.model import (
    NO_OFFSET,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
    TopicPartition,
    invariant,
)
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec
from tidelog.records.record import RecordHeader, read_records

_SEQUENCE_MASK = 0x7FFFFFFF


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is. The offset is -1 where the broker did not say it (acks=0)."""

    topic_partition: TopicPartition
    offset: Offset
    timestamp_ms: TimestampMs


class Delivery(Protocol):
    """Who waits for one record. Told exactly once."""

    def succeed(self, metadata: RecordMetadata) -> None:
        """The record is acknowledged."""
        ...

    def fail(self, error: ClientError) -> None:
        """The record will not be delivered, or nobody knows whether it was."""
        ...


class OutgoingRecord(NamedTuple):
    """A record given to the producer."""

    timestamp_ms: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader]
    delivery: Delivery

    @property
    def size_estimate_bytes(self) -> int:
        """About what the record takes in a batch, before compression: its bytes, lengths and deltas."""
        size = 14 + len(self.key or b"") + len(self.value or b"")
        for name, content in self.headers:
            size += 6 + len(name.encode()) + len(content or b"")
        return size


class ProducerIdentity(NamedTuple):
    """Under which name and epoch batches are numbered."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class OutgoingBatch:
    """Records of one partition that are sent, retried and answered together."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        codec: Codec,
        created_ms: float,
        deadline_ms: float,
        ordinal: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.deadline_ms = deadline_ms
        # Number of the first record among all records of the producer: the order retries are put back in.
        self.ordinal = ordinal
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.identity: ProducerIdentity | None = None
        self.base_sequence = NO_SEQUENCE
        self.is_on_wire = False
        # Whether an attempt ended without an answer of the broker's sequence check since the batch was numbered: it may be in the log.
        self.is_uncertain = False
        self.is_settled = False
        self._timestamps: list[TimestampMs] = []
        self._deliveries: list[Delivery] = []
        self._builder = RecordBatchBuilder(codec=codec)
        self._encoded: bytearray | None = None

    @property
    def record_count(self) -> int:
        """How many records are in it."""
        return len(self._deliveries)

    @property
    def size_bytes(self) -> int:
        """Its size before compression."""
        return self._builder.size_bytes

    def append(self, record: OutgoingRecord) -> None:
        """Add a record; only before the first attempt."""
        invariant(self._encoded is None and not self.attempts, "a batch takes records only before it is sent")
        self._builder.append(
            timestamp_ms=record.timestamp_ms, key=record.key, value=record.value, headers=record.headers
        )
        self._timestamps.append(record.timestamp_ms)
        self._deliveries.append(record.delivery)

    def number(self, identity: ProducerIdentity, base_sequence: int) -> int:
        """Give the batch its place in the producer's sequence on this partition; returns the next batch's."""
        self.identity = identity
        self.base_sequence = base_sequence
        self.is_uncertain = False
        self._builder.producer_id, self._builder.producer_epoch = identity
        self._builder.base_sequence = base_sequence
        self._encoded = None
        return (base_sequence + self.record_count) & _SEQUENCE_MASK

    def encode(self) -> bytearray:
        """The bytes to send; the same for every attempt under one numbering."""
        if self._encoded is None:
            self._encoded = self._builder.build()
        return self._encoded

    def split(self) -> list[OutgoingBatch]:
        """Two halves in place of this batch, which must have several records; sequences of later batches stay right."""
        records = read_records(self._builder.build(), max_bytes=self._builder.size_bytes)
        middle = len(records) // 2
        halves = []
        for start, end in ((0, middle), (middle, len(records))):
            half = OutgoingBatch(
                self.topic_partition,
                codec=self._builder.codec,
                created_ms=self.created_ms,
                deadline_ms=self.deadline_ms,
                ordinal=self.ordinal + start,
            )
            for record, delivery in zip(records[start:end], self._deliveries[start:end], strict=True):
                half.append(OutgoingRecord(record.timestamp_ms, record.key, record.value, record.headers, delivery))
            if self.identity is not None:
                half.number(self.identity, (self.base_sequence + start) & _SEQUENCE_MASK)
            half.attempts = self.attempts
            halves.append(half)
        return halves

    def succeed(self, base_offset: Offset, append_time_ms: TimestampMs) -> None:
        """Tell everyone who waits that the batch is in the log at `base_offset`."""
        if self.is_settled:
            return
        self.is_settled = True
        for index, (timestamp, delivery) in enumerate(zip(self._timestamps, self._deliveries, strict=True)):
            delivery.succeed(
                RecordMetadata(
                    self.topic_partition,
                    NO_OFFSET if base_offset == NO_OFFSET else base_offset + index,
                    timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms,
                )
            )

    def fail(self, error: ClientError) -> None:
        """Tell everyone who waits that it will not be."""
        if self.is_settled:
            return
        self.is_settled = True
        for delivery in self._deliveries:
            delivery.fail(error)

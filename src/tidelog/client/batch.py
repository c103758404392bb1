"""A batch on its way from the producer to a partition: its records, who waits for them, and what became of each attempt."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from crc32c import crc32c

from tidelog.client.errors import ClientError, WrongUse
from tidelog.model import (
    NO_OFFSET,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
    ProducerIdentity,
    TimestampMs,
    TopicPartition,
    invariant,
)
from tidelog.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT, CorruptBatch, read_header
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec
from tidelog.records.record import RecordHeader, read_records
from tidelog.runtime.disk import Buffer

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_EXPANDED_BYTES_MAX: Final = 1 << 30  # of a batch that is taken apart because a broker finds it too large

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")
_INT16: Final = struct.Struct(">h")
_UINT32: Final = struct.Struct(">I")


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


class EncodedRecords(NamedTuple):
    """A whole batch given to the producer, to be sent as it is but for who sent it. `data` is written to: it is the producer's from now on."""

    data: bytearray | memoryview
    record_count: int
    base_timestamp_ms: TimestampMs
    codec: Codec
    delivery: Delivery

    @property
    def size_estimate_bytes(self) -> int:
        """What it takes beside the header."""
        return len(self.data) - HEADER_SIZE


def read_encoded(encoded: Buffer, record_count: int, delivery: Delivery) -> EncodedRecords:
    """Look at a batch before it is taken; bytes that cannot be written to are copied. Raises WrongUse for what is not one whole batch."""
    data = encoded if isinstance(encoded, bytearray) else memoryview(encoded).cast("B")
    if isinstance(data, memoryview) and data.readonly:
        data = bytearray(data)
    try:
        header = read_header(data)
        codec = header.codec
    except CorruptBatch as error:
        raise WrongUse(f"send_batch() takes a whole record batch: {error}") from None
    if header.size != len(data) or header.record_count != record_count or header.last_offset_delta != record_count - 1:
        raise WrongUse(
            f"send_batch() takes one whole record batch: told of {record_count} records in {len(data)} bytes, "
            f"and its header says {header.record_count} in {header.size}"
        )
    if header.is_control or header.has_producer:
        raise WrongUse("send_batch() takes a batch of records that no producer has sent yet")
    return EncodedRecords(data, record_count, header.base_timestamp, codec, delivery)


class Place(NamedTuple):
    """When a batch began, how long it may take, and where it stands among all of its producer's."""

    created_ms: float
    deadline_ms: float
    ordinal: int  # of the first record among all records of the producer: the order retries are put back in
    is_transactional: bool = False


class OutgoingBatch(ABC):
    """Records of one partition that are sent, retried and answered together."""

    def __init__(self, topic_partition: TopicPartition, place: Place, *, codec: Codec) -> None:
        self.topic_partition = topic_partition
        self.place = place
        self.created_ms, self.deadline_ms, self.ordinal, _ = place
        self.codec = codec
        self.attempts = 0
        self.last_trouble: str | None = None
        """Why the latest attempt was not the last one."""
        self.retry_at_ms = 0.0
        self.identity: ProducerIdentity | None = None
        self.base_sequence = NO_SEQUENCE
        self.is_on_wire = False
        # Whether an attempt ended without an answer of the broker's sequence check since the batch was numbered: it may be in the log.
        self.is_uncertain = False
        self.is_settled = False

    @property
    @abstractmethod
    def record_count(self) -> int:
        """How many records are in it."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The memory it takes."""

    @abstractmethod
    def encode(self) -> bytearray | memoryview:
        """The bytes to send; the same for every attempt under one numbering."""

    @abstractmethod
    def split(self) -> list[GatheredBatch]:
        """Two halves in place of this batch, which must have several records; sequences of later batches stay right."""

    def number(self, identity: ProducerIdentity, base_sequence: int) -> int:
        """Give the batch its place in the producer's sequence on this partition; returns the next batch's."""
        self.identity = identity
        self.base_sequence = base_sequence
        self.is_uncertain = False
        self._on_numbered(identity)
        return (base_sequence + self.record_count) & _SEQUENCE_MASK

    def succeed(self, base_offset: Offset, append_time_ms: TimestampMs) -> None:
        """Tell everyone who waits that the batch is in the log at `base_offset`."""
        if not self.is_settled:
            self.is_settled = True
            self._tell_success(base_offset, append_time_ms)

    def fail(self, error: ClientError) -> None:
        """Tell everyone who waits that it will not be."""
        if not self.is_settled:
            self.is_settled = True
            self._tell_failure(error)

    @abstractmethod
    def _on_numbered(self, identity: ProducerIdentity) -> None:
        """What was encoded before is not to be sent again."""

    @abstractmethod
    def _tell_success(self, base_offset: Offset, append_time_ms: TimestampMs) -> None: ...

    @abstractmethod
    def _tell_failure(self, error: ClientError) -> None: ...

    def _metadata(self, base_offset: Offset, index: int, timestamp_ms: TimestampMs) -> RecordMetadata:
        offset = NO_OFFSET if base_offset == NO_OFFSET else base_offset + index
        return RecordMetadata(self.topic_partition, offset, timestamp_ms)


class GatheredBatch(OutgoingBatch):
    """Made of records that came one by one, each with somebody who waits for it."""

    def __init__(self, topic_partition: TopicPartition, place: Place, *, codec: Codec) -> None:
        super().__init__(topic_partition, place, codec=codec)
        self._timestamps: list[TimestampMs] = []
        self._deliveries: list[Delivery] = []
        self._builder = RecordBatchBuilder(codec=codec, is_transactional=place.is_transactional)
        self._encoded: bytearray | None = None

    @property
    def record_count(self) -> int:
        """How many there are by now."""
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

    def encode(self) -> bytearray:
        """Built once for each numbering."""
        if self._encoded is None:
            self._encoded = self._builder.build()
        return self._encoded

    def split(self) -> list[GatheredBatch]:
        """Decoded and gathered again."""
        return _halves(self, self._builder.build(), self._deliveries, expanded_bytes_max=self.size_bytes)

    def _on_numbered(self, identity: ProducerIdentity) -> None:
        self._builder.producer_id, self._builder.producer_epoch = identity
        self._builder.base_sequence = self.base_sequence
        self._encoded = None

    def _tell_success(self, base_offset: Offset, append_time_ms: TimestampMs) -> None:
        for index, (timestamp, delivery) in enumerate(zip(self._timestamps, self._deliveries, strict=True)):
            timestamp_ms = timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms
            delivery.succeed(self._metadata(base_offset, index, timestamp_ms))

    def _tell_failure(self, error: ClientError) -> None:
        for delivery in self._deliveries:
            delivery.fail(error)


class EncodedBatch(OutgoingBatch):
    """Encoded by somebody else. Who sends it is stamped into its bytes, which are never copied; one waits for all its records."""

    def __init__(self, topic_partition: TopicPartition, records: EncodedRecords, place: Place) -> None:
        super().__init__(topic_partition, place, codec=records.codec)
        self._records = records

    @property
    def record_count(self) -> int:
        """As many as its maker put in."""
        return self._records.record_count

    @property
    def size_bytes(self) -> int:
        """Its size as it is sent."""
        return len(self._records.data)

    def encode(self) -> bytearray | memoryview:
        """As stamped last."""
        return self._records.data

    def split(self) -> list[GatheredBatch]:
        """Decoded and gathered, which nobody does but to batches that a topic does not take."""
        deliveries = [_Joint(self._records.delivery, self.record_count)] * self.record_count
        return _halves(self, self._records.data, deliveries, expanded_bytes_max=_EXPANDED_BYTES_MAX)

    def _on_numbered(self, identity: ProducerIdentity) -> None:
        data = self._records.data
        (attributes,) = _INT16.unpack_from(data, _ATTRIBUTES_AT)
        attributes = attributes | TRANSACTIONAL_BIT if self.place.is_transactional else attributes & ~TRANSACTIONAL_BIT
        _INT16.pack_into(data, _ATTRIBUTES_AT, attributes)
        _PRODUCER.pack_into(data, _PRODUCER_AT, *identity, self.base_sequence)
        with memoryview(data) as view, view[_ATTRIBUTES_AT:] as checked:
            crc = crc32c(checked)
        _UINT32.pack_into(data, _CRC_AT, crc)

    def _tell_success(self, base_offset: Offset, append_time_ms: TimestampMs) -> None:
        timestamp_ms = self._records.base_timestamp_ms if append_time_ms == NO_TIMESTAMP else append_time_ms
        self._records.delivery.succeed(self._metadata(base_offset, 0, timestamp_ms))

    def _tell_failure(self, error: ClientError) -> None:
        self._records.delivery.fail(error)


class _Joint:
    """Who waits for a batch that was taken apart: told where its first record is once all are there, or of the first failure."""

    def __init__(self, delivery: Delivery, record_count: int) -> None:
        self._delivery = delivery
        self._left = record_count
        self._first: RecordMetadata | None = None
        self._has_failed = False

    def succeed(self, metadata: RecordMetadata) -> None:
        self._left -= 1
        # Halves may be acknowledged in any order, but offsets grow in the order of the records.
        if self._first is None or metadata.offset < self._first.offset:
            self._first = metadata
        if not self._left and not self._has_failed:
            self._delivery.succeed(self._first)

    def fail(self, error: ClientError) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._delivery.fail(error)


def _halves(
    batch: OutgoingBatch, data: Buffer, deliveries: Sequence[Delivery], *, expanded_bytes_max: int
) -> list[GatheredBatch]:
    records = read_records(data, max_bytes=expanded_bytes_max)
    middle = len(records) // 2
    halves = []
    for start, end in ((0, middle), (middle, len(records))):
        place = batch.place._replace(ordinal=batch.ordinal + start)
        half = GatheredBatch(batch.topic_partition, place, codec=batch.codec)
        for record, delivery in zip(records[start:end], deliveries[start:end], strict=True):
            half.append(OutgoingRecord(record.timestamp_ms, record.key, record.value, record.headers, delivery))
        if batch.identity is not None:
            half.number(batch.identity, (batch.base_sequence + start) & _SEQUENCE_MASK)
        half.attempts = batch.attempts
        halves.append(half)
    return halves

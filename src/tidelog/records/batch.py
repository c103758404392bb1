"""The record batch, format v2 (KIP-98): 61 bytes of header that the broker reads, and records it carries unseen.

The checksum covers everything from the attributes on. Base offset, length and leader epoch lie before it, so a leader
stamps them in place and followers store the very same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.model import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TimestampType
from tidelog.records.compression import Codec
from tidelog.records.corrupt import CorruptBatch, ExpandsTooFar
from tidelog.runtime.disk import Buffer

__all__ = [
    "HEADER_SIZE",
    "LENGTH_OVERHEAD",
    "BatchHeader",
    "CorruptBatch",
    "ExpandsTooFar",
    "crc_holds",
    "headers",
    "read_header",
    "sequence_after",
    "stamp",
    "stamp_append_time",
    "write_batch",
]

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that its length field does not count: base offset and the length itself."""

MAGIC: Final = 2
CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")  # what the checksum covers of the header
_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_OVERHEAD
_LEADER_EPOCH_AT: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_CODECS: Final[tuple[Codec | None, ...]] = (*Codec, None, None, None)
_SEQUENCE_COUNT: Final = 1 << 31


class BatchHeader(NamedTuple):
    """The 61 bytes before the records. A tuple because one is made for every batch that passes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Time of the first record, or the delete horizon where `has_delete_horizon` (KIP-534)."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive; compaction keeps it even when that record is gone."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset of the record that may follow this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, or -1 without one."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT

    @property
    def codec(self) -> Codec:
        """How the records are compressed. Raises CorruptBatch for the numbers 5 to 7, which mean nothing."""
        codec = _CODECS[self.attributes & CODEC_MASK]
        if codec is None:
            raise CorruptBatch(f"unknown codec {self.attributes & CODEC_MASK} at offset {self.base_offset}")
        return codec

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction has set the time after which tombstones or the marker in here may go."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id >= 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the records behind it may be missing. Raises CorruptBatch for what cannot be one."""
    try:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise CorruptBatch(f"{len(buffer) - position} bytes at {position} are no whole batch header") from None
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} at {position}, only {MAGIC} is spoken here")
    if header.length < _LENGTH_MIN:
        raise CorruptBatch(f"batch length {header.length} at {position} is less than a header")
    return header


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a partial one at the end is passed over. Raises CorruptBatch."""
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = read_header(buffer, position)
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def crc_holds(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the whole batch is there and its checksum is right."""
    end = position + header.size
    return end <= len(buffer) and crc32c(memoryview(buffer)[position + _ATTRIBUTES_AT : end]) == header.crc


def stamp(buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log, in place; the checksum does not cover these fields."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, *, append_time_ms: int) -> None:
    """Make `append_time_ms` the time of every record (LogAppendTime), in place, and renew the checksum."""
    (attributes,) = _INT16.unpack_from(buffer, position + _ATTRIBUTES_AT)
    _INT16.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | APPEND_TIME_BIT)
    stamp_max_timestamp(buffer, position, max_timestamp=append_time_ms)


def stamp_max_timestamp(buffer: bytearray | memoryview, position: int, *, max_timestamp: int) -> None:
    """Correct the largest timestamp, in place, and renew the checksum."""
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    (length,) = _INT32.unpack_from(buffer, position + 8)
    with memoryview(buffer) as view:
        crc = crc32c(view[position + _ATTRIBUTES_AT : position + LENGTH_OVERHEAD + length])
    _UINT32.pack_into(buffer, position + _CRC_AT, crc)


def write_batch(header: BatchHeader, payload: Buffer) -> bytearray:
    """A batch of this header and (compressed) records; length, magic and checksum are computed, not taken."""
    batch = bytearray(HEADER_SIZE + len(payload))
    _CHECKED_HEADER.pack_into(batch, _ATTRIBUTES_AT, *header[5:])
    batch[HEADER_SIZE:] = payload
    _INT64.pack_into(batch, 0, header.base_offset)
    _INT32.pack_into(batch, 8, len(batch) - LENGTH_OVERHEAD)
    _INT32.pack_into(batch, _LEADER_EPOCH_AT, header.leader_epoch)
    batch[_MAGIC_AT] = MAGIC
    with memoryview(batch) as view:
        _UINT32.pack_into(batch, _CRC_AT, crc32c(view[_ATTRIBUTES_AT:]))
    return batch


def new_header(
    *,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> BatchHeader:
    """A header for `write_batch` at offset 0, of no leader and no producer; the rest is for `_replace`."""
    return BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )


def sequence_after(sequence: int, count: int = 1) -> int:
    """The sequence number `count` records later; after 2147483647 comes 0."""
    return (sequence + count) % _SEQUENCE_COUNT

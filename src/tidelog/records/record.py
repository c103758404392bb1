"""Records inside a batch: what validation, compaction, coordinators, the client and the dump see after decompression.

`read_records` makes whole records. `spans` finds where each record lies and what it is keyed by, without copying values
and headers; whoever rewrites batches keeps the bytes between a span's ends, so nothing is lost in translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tidelog.model import TimestampType
from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header
from tidelog.records.compression import decompress
from tidelog.records.varint import encode_varint, read_varint, read_varlong
from tidelog.runtime.disk import Buffer

RecordHeader: TypeAlias = tuple[str, bytes | None]


Entry: TypeAlias = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a record: all that a replicated state machine wants to know of it."""


class Record(NamedTuple):
    """One record as a reader sees it. A tuple because one is made for every record read."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class RecordSpan(NamedTuple):
    """Where a record lies in the decompressed payload, and the fields that decide its fate."""

    start: int
    body_start: int
    """First byte after the length field."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value_start: int
    value_length: int
    """Negative for a null value, a tombstone."""

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes its key."""
        return self.value_length < 0


def read_records(batch: Buffer, *, max_bytes: int) -> list[Record]:
    """All records of one whole batch. Raises CorruptBatch; ExpandsTooFar beyond `max_bytes` of decompressed records."""
    header = read_header(batch)
    return records_in(header, payload_of(batch, header, max_bytes=max_bytes))


def payload_of(batch: Buffer, header: BatchHeader, *, max_bytes: int) -> bytes:
    """The decompressed records region of one whole batch."""
    if len(batch) < header.size:
        raise CorruptBatch(f"{len(batch)} bytes where the batch at offset {header.base_offset} has {header.size}")
    with memoryview(batch) as view:
        return bytes(decompress(header.codec, view[HEADER_SIZE : header.size], max_bytes=max_bytes))


def records_in(header: BatchHeader, payload: bytes) -> list[Record]:
    """The records of a decompressed payload, exactly as many as the header counts."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    records: list[Record] = []
    position = 0
    try:
        for _ in range(header.record_count):
            _, _, end, timestamp_delta, offset_delta, key, value_start, value_length = _read_fields(payload, position)
            value_end = value_start + value_length if value_length > 0 else value_start
            records.append(
                Record(
                    base_offset + offset_delta,
                    base_timestamp + timestamp_delta if append_time is None else append_time,
                    key,
                    payload[value_start:value_end] if value_length >= 0 else None,
                    () if value_end + 1 == end else _read_headers(payload, value_end, end),
                )
            )
            position = end
    except IndexError:
        raise _cut_short(payload, position) from None
    _check_nothing_remains(header, payload, position)
    return records


def spans(header: BatchHeader, payload: bytes) -> Iterator[RecordSpan]:
    """Every record of a payload, fully checked: lengths nest, the count is the header's, nothing is left over."""
    position = 0
    for _ in range(header.record_count):
        try:
            span = RecordSpan._make(_read_fields(payload, position))
        except IndexError:
            raise _cut_short(payload, position) from None
        yield span
        position = span.end
    _check_nothing_remains(header, payload, position)


def entries(payload: bytes, position: int, end: int, base_offset: int, record_count: int) -> Iterator[Entry]:
    """What the records between two positions are keyed by and say. Raises CorruptBatch where they do not fill the place exactly.

    For those who read millions: nothing is checked but that every field lies within its record, and headers are passed over.
    """
    for _ in range(record_count):
        try:
            length, position = read_varint(payload, position)
            record_end = position + length
            delta = payload[position + 2]
            if delta < 0x80 and payload[position + 1] < 0x80:  # Both deltas take one byte.
                offset_delta = delta >> 1
                position += 3
            else:
                _, position = read_varlong(payload, position + 1)
                offset_delta, position = read_varint(payload, position)
            length, position = payload[position], position + 1
            if length < 0x80 and not length & 1:
                value_at = position + (length >> 1)
                key: bytes | None = payload[position:value_at]
            else:
                key, value_at = _content(payload, position - 1)
            length, position = payload[value_at], value_at + 1
            if length < 0x80 and not length & 1:
                value_end = position + (length >> 1)
                value: bytes | None = payload[position:value_end]
            else:
                value, value_end = _content(payload, value_at)
        except IndexError:
            raise _cut_short(payload, position) from None
        if not value_end < record_end <= end:
            raise CorruptBatch(f"the record before {value_end} should end at {record_end}, and its batch at {end}")
        position = record_end
        yield base_offset + offset_delta, key, value
    if position != end:
        raise CorruptBatch(f"{end - position} bytes remain after the last of {record_count} records")


def _content(payload: bytes, position: int) -> tuple[bytes | None, int]:
    """A key or value with its length before it, and the position after it."""
    length, position = read_varint(payload, position)
    return (None, position) if length < 0 else (payload[position : position + length], position + length)


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[RecordHeader] = (),
) -> bytes:
    """The bytes of one record, length included."""
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts += (b"\x01",) if key is None else (encode_varint(len(key)), key)
    parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (b"\x01",) if content is None else (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def rebase(payload: bytes, span: RecordSpan, *, timestamp_delta: int, offset_delta: int) -> bytes:
    """The bytes of a record with other deltas and all else untouched."""
    _, position = read_varlong(payload, span.body_start + 1)
    _, position = read_varint(payload, position)
    body = b"".join(
        (
            payload[span.body_start : span.body_start + 1],
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            payload[position : span.end],
        )
    )
    return encode_varint(len(body)) + body


def _read_fields(payload: bytes, start: int) -> tuple[int, int, int, int, int, bytes | None, int, int]:
    """The fields of a RecordSpan. Numbers that mostly take one byte are read in place: this runs once per record."""
    length, body_start = read_varint(payload, start)
    end = body_start + length
    if length < 0 or end > len(payload):
        raise CorruptBatch(f"the record at {start} claims {length} bytes where {len(payload) - body_start} remain")
    timestamp_delta, position = read_varlong(payload, body_start + 1)
    offset_delta, position = read_varint(payload, position)
    byte = payload[position]
    if byte < 0x80 and not byte & 1:
        key_end = position + 1 + (byte >> 1)
        if key_end > end:
            raise CorruptBatch(f"the key at {position} leaves its record, which ends at {end}")
        key: bytes | None = payload[position + 1 : key_end]
        position = key_end
    else:
        key, position = _read_bytes(payload, position, end)
    value_length, value_start = read_varint(payload, position)
    position = value_start + value_length if value_length > 0 else value_start
    if position + 1 != end or payload[position]:
        _check_headers(payload, position, start, end)
    return start, body_start, end, timestamp_delta, offset_delta, key, value_start, value_length


def _cut_short(payload: bytes, position: int) -> CorruptBatch:
    return CorruptBatch(f"the record at {position} of {len(payload)} bytes runs over the end")


def _check_nothing_remains(header: BatchHeader, payload: bytes, position: int) -> None:
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes remain after the last of {header.record_count} records")


def _read_bytes(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position)
    if length < 0:
        return None, position
    if length > end - position:
        raise CorruptBatch(f"{length} bytes at {position} leave their record, which ends at {end}")
    return payload[position : position + length], position + length


def _check_headers(payload: bytes, position: int, start: int, end: int) -> None:
    """The headers must fill what remains of the record; their count is bounded by the bytes that remain."""
    count, position = read_varint(payload, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"{count} headers where {end - position} bytes remain")
    for _ in range(count):
        name_length, position = read_varint(payload, position)
        if not 0 <= name_length <= end - position:
            raise CorruptBatch(f"a header name of {name_length} bytes at {position}, its record ends at {end}")
        value_length, position = read_varint(payload, position + name_length)
        if value_length > end - position:
            raise CorruptBatch(f"a header value of {value_length} bytes at {position}, its record ends at {end}")
        position += max(value_length, 0)
    if position != end:
        raise CorruptBatch(f"the record at {start} ends at {position} instead of {end}")


def _read_headers(payload: bytes, position: int, end: int) -> tuple[RecordHeader, ...]:
    count, position = read_varint(payload, position)
    if not count:
        return ()
    headers: list[RecordHeader] = []
    for _ in range(count):
        name, position = _read_bytes(payload, position, end)
        value, position = _read_bytes(payload, position, end)
        headers.append(((name or b"").decode(errors="replace"), value))
    return tuple(headers)

"""What a leader checks before it lets a client's batch into the log, in Kafka's order, and what it may change about it.

The usual batch is judged by its header and checksum alone and keeps its bytes. Records are only decoded when the topic
asks for something that the header cannot tell: keys (compaction), another codec, or a bound on old timestamps. A bound
on future timestamps is judged by the header's largest timestamp, the one that the time index and retention believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model import NO_PRODUCER_ID, NO_TIMESTAMP, ApiError, ErrorCode, TimestampType
from tidelog.records.batch import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    ExpandsTooFar,
    crc_holds,
    read_header,
    stamp_append_time,
    stamp_max_timestamp,
    write_batch,
)
from tidelog.records.compression import Codec, compress
from tidelog.records.record import payload_of, rebase, spans
from tidelog.runtime.disk import Buffer

RECORD_ERRORS_MAX: Final = 1000
"""Most record errors one answer lists; of a million records without keys only the first ones are named."""


DECODED_RECORDS_MAX: Final = 500_000
"""Most records of a batch that is looked into: a second's work, so that a broker that stops need not wait longer for it.
Producers split a batch that is too large."""


class RecordError(NamedTuple):
    """Why one record of a batch was refused (Produce v8, KIP-467)."""

    batch_index: int
    message: str


class InvalidRecords(ApiError):
    """A batch refused because of some of its records; one bad record refuses them all."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """What a topic, and the version of the Produce request, demand of a batch."""

    max_message_bytes: int
    segment_bytes: int
    codec: Codec | None = None  # None keeps the producer's (compression.type=producer)
    compression_level: int | None = None
    is_compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int | None = None  # None sets no bound
    timestamp_after_max_ms: int | None = None
    allows_zstd: bool = True  # Produce v7 and later
    wants_every_record_checked: bool = False

    @property
    def decompressed_bytes_max(self) -> int:
        """How far a compressed batch may expand: sixteen times the largest batch, within fixed bounds."""
        return min(_DECOMPRESSED_BYTES_CAP, max(_DECOMPRESSED_BYTES_FLOOR, 16 * self.max_message_bytes))


class Validated(NamedTuple):
    """A batch fit to be appended."""

    batch: bytearray | memoryview
    """The given buffer, maybe with patched timestamps, or a new one where the batch had to be rebuilt."""
    header: BatchHeader
    append_time_ms: int
    """The time that now holds for all records, or -1 on a CreateTime topic; Produce answers carry it."""


def validate_produced(batch: bytearray | memoryview, rules: ProduceRules, now_ms: int) -> Validated:
    """Check what a client sent to one partition. Raises ApiError; InvalidRecords where single records are to blame."""
    header = _single_batch(batch)
    codec = _codec_of(header, rules)
    _check_size(header.size, rules.max_message_bytes)
    if not crc_holds(batch, 0, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch does not match its content")
    _check_claims(header)
    is_future = _check_timestamp_claims(header, rules, now_ms)
    target_codec = codec if rules.codec is None else rules.codec
    if is_future or target_codec is not codec or _must_decode(rules):
        batch = _validate_records(batch, header, rules, now_ms)
        header = read_header(batch)
    append_time_ms = NO_TIMESTAMP
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time_ms = now_ms
        stamp_append_time(batch, 0, append_time_ms=now_ms)
        header = read_header(batch)
    if header.size > rules.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {header.size} bytes does not fit in a segment of {rules.segment_bytes}",
        )
    return Validated(batch, header, append_time_ms)


def is_small(batch: Buffer) -> bool:
    """Whether validating a batch cannot take long, whatever its topic asks for; saves asking."""
    return (
        HEADER_SIZE <= len(batch) <= _COMPRESSED_BYTES_AT_ONCE
        and _RECORD_COUNT.unpack_from(batch, _RECORD_COUNT_AT)[0] <= _RECORDS_AT_ONCE
    )


def is_laborious(batch: Buffer, rules: ProduceRules, now_ms: int) -> bool:
    """Whether `validate_produced` may take longer than an event loop may be held, judged by the header alone."""
    if len(batch) < HEADER_SIZE:
        return False
    try:
        header = read_header(batch)
        codec = header.codec
    except CorruptBatch:
        return False  # Refused before any record is looked at.
    target_codec = codec if rules.codec is None else rules.codec
    if target_codec is codec and not _must_decode(rules) and not _is_future(header, rules, now_ms):
        return False
    if header.record_count > _RECORDS_AT_ONCE:
        return True
    is_plain = codec is Codec.NONE and target_codec is Codec.NONE
    return not is_plain and header.size > _COMPRESSED_BYTES_AT_ONCE


# What takes a few milliseconds: a record decodes in 2 us, and 4 KiB of gzip hold at most 4 MiB.
_RECORDS_AT_ONCE: Final = 1_000
_COMPRESSED_BYTES_AT_ONCE: Final = 4 << 10
_DECOMPRESSED_BYTES_FLOOR: Final = 16 << 20
_DECOMPRESSED_BYTES_CAP: Final = 256 << 20
_MAGIC_AT: Final = 16
_RECORD_COUNT: Final = Struct(">i")
_RECORD_COUNT_AT: Final = 57


def _single_batch(batch: Buffer) -> BatchHeader:
    """Exactly one whole batch of format v2, or an error; Kafka's check comes before that of the topic."""
    if len(batch) <= _MAGIC_AT:
        raise _invalid("the records hold no record batch")
    if batch[_MAGIC_AT] != MAGIC:
        raise _invalid(f"record format {batch[_MAGIC_AT]} is not supported, only {MAGIC}")
    length = int.from_bytes(batch[8:LENGTH_OVERHEAD], "big", signed=True)
    if length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is less than a header")
    if LENGTH_OVERHEAD + length > len(batch):
        raise _invalid(f"the batch claims {LENGTH_OVERHEAD + length} bytes where {len(batch)} were sent")
    if LENGTH_OVERHEAD + length < len(batch):
        raise _invalid("the records of a partition must be exactly one batch")
    return read_header(batch)


def _codec_of(header: BatchHeader, rules: ProduceRules) -> Codec:
    try:
        codec = header.codec
    except CorruptBatch as error:
        raise _invalid(str(error)) from None
    if codec is Codec.ZSTD and not rules.allows_zstd:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later")
    return codec


def _check_size(size: int, max_message_bytes: int) -> None:
    if size > max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes where max.message.bytes is {max_message_bytes}"
        )


def _check_claims(header: BatchHeader) -> None:
    """What a client may say in a header. The last three are ours: Kafka stores such batches and misreads them later."""
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset}, a producer sends 0")
    if header.record_count <= 0:
        raise _invalid(f"record count {header.record_count}")
    if header.last_offset_delta + 1 != header.record_count:
        raise _invalid(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.has_producer and header.base_sequence < 0:
        raise _invalid(f"base sequence {header.base_sequence} of producer {header.producer_id}")
    if header.producer_id < NO_PRODUCER_ID or (header.has_producer and header.producer_epoch < 0):
        raise _invalid(f"producer {header.producer_id} with epoch {header.producer_epoch}")
    if header.is_transactional and not header.has_producer:
        raise _invalid("a transactional batch without a producer id")
    if header.has_delete_horizon:
        raise _invalid("clients may not set a delete horizon")


def _check_timestamp_claims(header: BatchHeader, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the header says that some record lies too far in the future, so that the records must name which."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidRecords(
            ErrorCode.INVALID_TIMESTAMP,
            "a producer may not set the timestamp type to LogAppendTime",
            [RecordError(0, "the timestamp type of the batch is LogAppendTime")],
        )
    return _is_future(header, rules, now_ms)


def _is_future(header: BatchHeader, rules: ProduceRules, now_ms: int) -> bool:
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME or rules.timestamp_after_max_ms is None:
        return False
    return max(header.max_timestamp, header.base_timestamp) > now_ms + rules.timestamp_after_max_ms


def _must_decode(rules: ProduceRules) -> bool:
    return (
        rules.is_compacted
        or rules.wants_every_record_checked
        or (rules.timestamp_before_max_ms is not None and rules.timestamp_type is TimestampType.CREATE_TIME)
    )


def _validate_records(
    batch: bytearray | memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int
) -> bytearray | memoryview:
    if header.record_count > DECODED_RECORDS_MAX:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.record_count} records in a batch, where {DECODED_RECORDS_MAX} are looked at",
        )
    try:
        payload = payload_of(batch, header, max_bytes=rules.decompressed_bytes_max)
        max_timestamp, is_sequential = _check_records(header, payload, rules, now_ms)
    except ExpandsTooFar as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except CorruptBatch as error:
        raise _invalid(str(error)) from None
    target_codec = header.codec if rules.codec is None else rules.codec
    if target_codec is not header.codec or not is_sequential:
        content = payload if is_sequential else _renumbered(header, payload)
        rebuilt = _rebuild(header._replace(max_timestamp=max_timestamp), content, rules)
        _check_size(len(rebuilt), rules.max_message_bytes)
        return rebuilt
    if header.max_timestamp != max_timestamp:
        stamp_max_timestamp(batch, 0, max_timestamp=max_timestamp)
    return batch


def _check_records(header: BatchHeader, payload: bytes, rules: ProduceRules, now_ms: int) -> tuple[int, bool]:
    """The largest timestamp, and whether the offsets count up from 0. Raises ApiError, CorruptBatch.

    One record at a time: a batch may expand to millions of them, and nothing is kept of a record but what is wrong with it.
    """
    judge = _Judge(rules, now_ms)
    base_timestamp = header.base_timestamp
    largest_delta: int | None = None
    is_sequential = True
    for index, span in enumerate(spans(header, payload)):
        delta = span.timestamp_delta
        if largest_delta is None or delta > largest_delta:
            largest_delta = delta
        if span.offset_delta != index:
            is_sequential = False
        if judge.is_needed:
            judge.look_at(index, base_timestamp + delta, has_key=span.key is not None)
    judge.refuse_the_bad(header.record_count)
    return base_timestamp + (largest_delta or 0), is_sequential


class _Judge:
    """Finds the records that a topic does not take, and remembers the first thousand of them."""

    def __init__(self, rules: ProduceRules, now_ms: int) -> None:
        bounds_time = rules.timestamp_type is TimestampType.CREATE_TIME
        before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
        self._wants_keys = rules.is_compacted
        self._earliest = now_ms - before if bounds_time and before is not None else None
        self._latest = now_ms + after if bounds_time and after is not None else None
        self.is_needed = self._wants_keys or self._earliest is not None or self._latest is not None
        self._errors: list[RecordError] = []
        self._count = 0
        self._lacks_keys = False

    def look_at(self, index: int, timestamp: int, *, has_key: bool) -> None:
        """Judge one record."""
        if self._wants_keys and not has_key:
            self._lacks_keys = True
            self._add(index, "a compacted topic takes no record without a key")
        elif timestamp != NO_TIMESTAMP and (
            (self._earliest is not None and timestamp < self._earliest)
            or (self._latest is not None and timestamp > self._latest)
        ):
            self._add(index, f"timestamp {timestamp} is outside of [{self._earliest}, {self._latest}]")

    def refuse_the_bad(self, record_count: int) -> None:
        """Raise InvalidRecords if there were any."""
        if self._errors:
            raise InvalidRecords(
                ErrorCode.INVALID_RECORD if self._lacks_keys else ErrorCode.INVALID_TIMESTAMP,
                f"{self._count} of {record_count} records are refused; the first: {self._errors[0].message}",
                self._errors,
            )

    def _add(self, index: int, message: str) -> None:
        self._count += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            self._errors.append(RecordError(index, message))


def _renumbered(header: BatchHeader, payload: bytes) -> bytearray:
    """The same records with the offset deltas 0, 1, 2... that they lacked."""
    out = bytearray()
    for index, span in enumerate(spans(header, payload)):
        out += rebase(payload, span, timestamp_delta=span.timestamp_delta, offset_delta=index)
    return out


def _rebuild(header: BatchHeader, payload: bytes | bytearray, rules: ProduceRules) -> bytearray:
    """The same records under the topic's codec."""
    codec = header.codec if rules.codec is None else rules.codec
    attributes = header.attributes & ~CODEC_MASK & ~APPEND_TIME_BIT | codec
    return write_batch(header._replace(attributes=attributes), compress(codec, payload, rules.compression_level))


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)

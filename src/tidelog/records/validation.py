"""What a leader checks before it lets a client's batch into the log, in Kafka's order, and what it may change about it.

The usual batch is judged by its header and checksum alone and keeps its bytes. Records are only decoded when the topic
asks for something that the header cannot tell: keys (compaction), another codec, or a bound on old timestamps. A bound
on future timestamps is judged by the header's largest timestamp, the one that the time index and retention believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from tidelog.records.record import RecordSpan, payload_of, rebase, spans
from tidelog.runtime.disk import Buffer

RECORD_ERRORS_MAX: Final = 1000
"""Most record errors one answer lists; of a million records without keys only the first ones are named."""


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


_DECOMPRESSED_BYTES_FLOOR: Final = 16 << 20
_DECOMPRESSED_BYTES_CAP: Final = 256 << 20
_MAGIC_AT: Final = 16


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
    try:
        payload = payload_of(batch, header, max_bytes=rules.decompressed_bytes_max)
        found = list(spans(header, payload))
    except ExpandsTooFar as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except CorruptBatch as error:
        raise _invalid(str(error)) from None
    _check_records(header, found, rules, now_ms)
    max_timestamp = header.base_timestamp + max(span.timestamp_delta for span in found)
    target_codec = header.codec if rules.codec is None else rules.codec
    is_sequential = all(span.offset_delta == index for index, span in enumerate(found))
    if target_codec is not header.codec or not is_sequential:
        rebuilt = _rebuild(
            header._replace(max_timestamp=max_timestamp), payload, found if not is_sequential else (), rules
        )
        _check_size(len(rebuilt), rules.max_message_bytes)
        return rebuilt
    if header.max_timestamp != max_timestamp:
        stamp_max_timestamp(batch, 0, max_timestamp=max_timestamp)
    return batch


def _check_records(header: BatchHeader, found: Sequence[RecordSpan], rules: ProduceRules, now_ms: int) -> None:
    keyless: list[RecordError] = []
    untimely: list[RecordError] = []
    bounds_time = rules.timestamp_type is TimestampType.CREATE_TIME
    earliest = None if rules.timestamp_before_max_ms is None else now_ms - rules.timestamp_before_max_ms
    latest = None if rules.timestamp_after_max_ms is None else now_ms + rules.timestamp_after_max_ms
    for index, span in enumerate(found):
        timestamp = header.base_timestamp + span.timestamp_delta
        if rules.is_compacted and span.key is None:
            keyless.append(RecordError(index, "a compacted topic takes no record without a key"))
        elif not bounds_time or timestamp == NO_TIMESTAMP:
            continue
        elif (earliest is not None and timestamp < earliest) or (latest is not None and timestamp > latest):
            untimely.append(RecordError(index, f"timestamp {timestamp} is outside of [{earliest}, {latest}]"))
    if keyless or untimely:
        errors = sorted([*keyless, *untimely])
        raise InvalidRecords(
            ErrorCode.INVALID_RECORD if keyless else ErrorCode.INVALID_TIMESTAMP,
            f"{len(errors)} of {len(found)} records are refused; the first: {errors[0].message}",
            errors[:RECORD_ERRORS_MAX],
        )


def _rebuild(header: BatchHeader, payload: bytes, renumber: Sequence[RecordSpan], rules: ProduceRules) -> bytearray:
    """The same records under the topic's codec; those in `renumber` get the offset deltas 0, 1, 2... they lacked."""
    if renumber:
        payload = b"".join(
            rebase(payload, span, timestamp_delta=span.timestamp_delta, offset_delta=index)
            for index, span in enumerate(renumber)
        )
    codec = header.codec if rules.codec is None else rules.codec
    attributes = header.attributes & ~CODEC_MASK & ~APPEND_TIME_BIT | codec
    return write_batch(header._replace(attributes=attributes), compress(codec, payload, rules.compression_level))


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)

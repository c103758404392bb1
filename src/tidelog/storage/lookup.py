"""Finding records by time, over the segments of a log.

A batch is looked into on the loop and comes from a client, so what that may cost is bounded: of a batch with very many records, or one that
expands very far, the answer is the batch as a whole, whose first record comes before the one that was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.model import Offset, TimestampMs, TimestampType
from tidelog.records.batch import BatchHeader, ExpandsTooFar
from tidelog.records.record import payload_of, spans
from tidelog.storage.scan import read_batch
from tidelog.storage.segment import Segment
from tidelog.storage.values import TimestampedOffset

_DECOMPRESSED_MAX: Final = 16 << 20
_RECORDS_MAX: Final = 25_000


def find_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: TimestampMs, *, start_offset: Offset, end_offset: Offset
) -> TimestampedOffset | None:
    """The first record in [start, end) whose timestamp is `timestamp_ms` or later. Raises CorruptBatch."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.largest_timestamp_ms >= timestamp_ms:
            found = _find_in_segment(segment, timestamp_ms, start_offset)
            if found is not None:
                return found if found.offset < end_offset else None
    return None


def find_max_timestamp(
    segments: Sequence[Segment], *, start_offset: Offset, end_offset: Offset
) -> TimestampedOffset | None:
    """The first record in [start, end) that has the largest timestamp there. Raises CorruptBatch."""
    best: tuple[TimestampMs, Offset, Segment] | None = None
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        next_base = end_offset if is_last else segments[number + 1].base_offset
        if next_base <= start_offset or segment.base_offset >= end_offset:
            continue
        is_whole = not is_last and next_base <= end_offset and segment.base_offset >= start_offset
        largest = _whole_maximum(segment) if is_whole else _maximum_between(segment, start_offset, end_offset)
        if largest is not None and (best is None or largest[0] > best[0]):
            best = (*largest, segment)
    if best is None:
        return None
    timestamp_ms, last_offset, segment = best
    return _record_at(segment, last_offset, timestamp_ms, start_offset)


def _find_in_segment(segment: Segment, timestamp_ms: TimestampMs, start_offset: Offset) -> TimestampedOffset | None:
    entry = segment.time_index.last_up_to_timestamp(timestamp_ms)
    from_offset = start_offset if entry is None else max(entry[1], start_offset)
    position = segment.locate(max(from_offset, segment.base_offset))
    if position is None:
        return None
    for at, header in segment.scan_headers(position):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            for offset, stamp in _timestamps(segment, at, header, start_offset):
                if stamp >= timestamp_ms and offset >= start_offset:
                    return TimestampedOffset(offset, stamp, header.leader_epoch)
    return None


def _whole_maximum(segment: Segment) -> tuple[TimestampMs, Offset] | None:
    if segment.largest_timestamp_ms < 0:
        return None
    return segment.largest_timestamp_ms, segment.offset_of_largest_timestamp


def _maximum_between(segment: Segment, start_offset: Offset, end_offset: Offset) -> tuple[TimestampMs, Offset] | None:
    """Largest timestamp of the batches in a part of a segment: the time index knows most of it, a short walk the rest."""
    entry = segment.time_index.last_before_offset(end_offset)
    if entry is not None and entry[1] < start_offset:
        entry = None
    largest = entry
    position = segment.locate(start_offset if entry is None else entry[1])
    if position is None:
        return largest
    for _, header in segment.scan_headers(position):
        if header.last_offset >= end_offset:
            break
        if header.record_count and header.max_timestamp >= 0 and (largest is None or header.max_timestamp > largest[0]):
            largest = header.max_timestamp, header.last_offset
    return largest


def _record_at(
    segment: Segment, last_offset: Offset, timestamp_ms: TimestampMs, start_offset: Offset
) -> TimestampedOffset | None:
    position = segment.locate(last_offset)
    if position is None:
        return None
    at, header = next(segment.scan_headers(position))
    for offset, stamp in _timestamps(segment, at, header, start_offset):
        if stamp >= timestamp_ms and offset >= start_offset:
            return TimestampedOffset(offset, stamp, header.leader_epoch)
    # Compaction took the record that had the largest timestamp; the batch still remembers it.
    return TimestampedOffset(last_offset, timestamp_ms, header.leader_epoch)


def _timestamps(
    segment: Segment, position: int, header: BatchHeader, start_offset: Offset
) -> Iterator[tuple[Offset, TimestampMs]]:
    """Offset and time of each record; of a batch that is not looked into, its first offset and its largest time."""
    payload = _payload(segment, position, header)
    if payload is None:
        yield max(header.base_offset, start_offset), header.max_timestamp
        return
    for span in spans(header, payload):
        yield header.base_offset + span.offset_delta, header.base_timestamp + span.timestamp_delta


def _payload(segment: Segment, position: int, header: BatchHeader) -> bytes | None:
    """The records of a batch, or None: with append time all have the batch's, so the first is the answer; or there are too many."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or header.record_count > _RECORDS_MAX:
        return None
    try:
        return payload_of(read_batch(segment.file, position, header), header, max_bytes=_DECOMPRESSED_MAX)
    except ExpandsTooFar:
        return None

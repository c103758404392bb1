"""Compaction: rewriting sealed segments so that of every key only the last record remains (KIP-58, KIP-534).

`clean` runs in a child process. It reads the segments of a plan and writes `.cleaned` files beside them, complete and flushed; nothing else
on the disk changes, and the log swaps the files in by itself (`swap.py`). Offsets, order, leader epochs and sequences stay what they were;
batches only lose records. A reader that goes from the start to the end within delete.retention.ms sees the final state of every key.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model import NO_TIMESTAMP, Offset, ProducerId, TimestampType
from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    BatchHeader,
    CorruptBatch,
    crc_holds,
    write_batch,
)
from tidelog.records.compression import Codec, compress
from tidelog.records.record import RecordSpan, payload_of, rebase, spans
from tidelog.runtime import Disk
from tidelog.runtime.disk import Buffer
from tidelog.storage.compaction_plan import CompactionPlan
from tidelog.storage.key_offsets import KeyOffsets
from tidelog.storage.names import CLEANED, LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, file_name
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.scan import ScannedBatch, scan_batches, scan_headers
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tidelog.storage.transaction_index import AbortedEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """What `clean` wrote: the log may swap `cleaned` in for `replaced`, and remember where the dirt begins now."""

    cleaned: tuple[Offset, ...]
    replaced: tuple[Offset, ...]
    first_dirty_offset: Offset
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


def clean(disk: Disk, plan: CompactionPlan) -> CleanResult:
    """Carry out a plan. Raises CorruptBatch if a batch is damaged: then nothing is to be swapped, and the log is not compacted any more."""
    aborted = _AbortedRanges(plan.aborted)
    keys = _map_keys(disk, plan, aborted)
    replaced = tuple(base for base in plan.segments if base < keys.end_offset)
    judge = _Judge(plan, keys, aborted, _newest_of_producers(disk, plan, replaced, keys.end_offset))
    cleaned = []
    bytes_before = bytes_after = 0
    for group in _groups(disk, plan, replaced):
        bytes_before += sum(_size(disk, plan.directory, base, LOG) for base in group)
        bytes_after += _rewrite(disk, plan, group, judge)
        cleaned.append(group[0])
    return CleanResult(
        cleaned=tuple(cleaned),
        replaced=replaced,
        first_dirty_offset=keys.end_offset,
        bytes_before=bytes_before,
        bytes_after=bytes_after,
        records_before=judge.records_before,
        records_after=judge.records_after,
    )


_DECOMPRESSED_BYTES_MAX: Final = 256 << 20  # as far as produce validation lets a batch of a compacted topic expand
_WRITE_BYTES: Final = 1 << 20


class _AbortedRanges:
    """Which batches belong to aborted transactions. Transactions of one producer follow each other, so they do not overlap."""

    def __init__(self, entries: Iterable[AbortedEntry]) -> None:
        self._by_producer: dict[ProducerId, list[tuple[Offset, AbortedEntry]]] = defaultdict(list)
        self.by_marker = {entry.last_offset: entry for entry in entries}
        for entry in sorted(self.by_marker.values(), key=lambda entry: entry.first_offset):
            self._by_producer[entry.producer_id].append((entry.first_offset, entry))

    def holds(self, header: BatchHeader) -> bool:
        """Whether the records of a data batch were aborted."""
        ranges = self._by_producer.get(header.producer_id)
        if ranges is None or not header.is_transactional:
            return False
        number = bisect_right(ranges, header.base_offset, key=lambda pair: pair[0])
        return number > 0 and header.base_offset <= ranges[number - 1][1].last_offset


def _map_keys(disk: Disk, plan: CompactionPlan, aborted: _AbortedRanges) -> KeyOffsets:
    """Pass 1: the last offset of every key in the dirty stretch, or in as much of it as the map has room for."""
    keys = KeyOffsets(plan.keys_max, plan.first_dirty_offset)
    for batch in _dirty_batches(disk, plan):
        header = batch.header
        if not header.is_control and not aborted.holds(header):
            if not keys.has_room_for(header.record_count):
                return keys
            for span in spans(header, payload_of(batch.data, header, max_bytes=_DECOMPRESSED_BYTES_MAX)):
                if span.key is not None:
                    keys.note(span.key, header.base_offset + span.offset_delta)
        keys.end_offset = header.next_offset
    # What follows the last batch are offsets that an earlier compaction emptied.
    keys.end_offset = plan.end_offset
    return keys


def _dirty_batches(disk: Disk, plan: CompactionPlan) -> Iterator[ScannedBatch]:
    for base, end in zip(plan.segments, (*plan.segments[1:], plan.end_offset), strict=True):
        if end <= plan.first_dirty_offset:
            continue
        for batch in _batches(disk, plan.directory, base):
            if batch.header.last_offset >= plan.end_offset:
                return
            if batch.header.next_offset > plan.first_dirty_offset:
                yield batch


class _Newest(NamedTuple):
    """What must stay of active producers: in the stretch to be rewritten, the last batch of each and its last marker.

    A later batch further on is no substitute: it may not be durable yet, and a crash or truncation would take the sequence with it.
    """

    batches: frozenset[Offset]
    """Last offsets of data batches: they tell epoch and sequence."""
    markers: frozenset[Offset]
    """Offsets of markers: they tell the producer's epoch and the coordinator's."""


def _newest_of_producers(disk: Disk, plan: CompactionPlan, replaced: Sequence[Offset], end_offset: Offset) -> _Newest:
    active = {producer.producer_id for producer in plan.producers}
    batches: dict[ProducerId, BatchHeader] = {}
    markers: dict[ProducerId, BatchHeader] = {}
    for base in replaced if active else ():
        for header in _headers(disk, plan.directory, base):
            if header.producer_id in active and header.last_offset < end_offset:
                (markers if header.is_control else batches)[header.producer_id] = header
    for producer_id, marker in markers.items():
        batch = batches.get(producer_id)
        if batch is not None and batch.producer_epoch < marker.producer_epoch:
            del batches[producer_id]  # A new epoch begins sequences anew.
    return _Newest(
        frozenset(batch.last_offset for batch in batches.values()),
        frozenset(marker.base_offset for marker in markers.values()),
    )


def _groups(disk: Disk, plan: CompactionPlan, replaced: Sequence[Offset]) -> list[list[Offset]]:
    """Neighbouring segments that fit into one by bytes, index entries and offsets; judged by their size before."""
    groups: list[list[Offset]] = []
    room: dict[str, int] = {}
    for number, base in enumerate(replaced):
        sizes = {suffix: _size(disk, plan.directory, base, suffix) for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)}
        end = replaced[number + 1] if number + 1 < len(replaced) else plan.end_offset
        if (
            groups
            and end - groups[-1][0] <= RELATIVE_OFFSET_MAX
            and all(size <= room[suffix] for suffix, size in sizes.items())
        ):
            groups[-1].append(base)
        else:
            groups.append([base])
            room = {
                LOG: plan.segment_bytes,
                OFFSET_INDEX: plan.segment_index_bytes,
                TIME_INDEX: plan.segment_index_bytes,
            }
        room = {suffix: room[suffix] - size for suffix, size in sizes.items()}
    return groups


def _rewrite(disk: Disk, plan: CompactionPlan, group: Sequence[Offset], judge: _Judge) -> int:
    """Pass 2 over one group: write its `.cleaned` segment, flushed and as old as what it replaces; its size."""
    for suffix in SEGMENT_SUFFIXES:
        path = _path(plan.directory, group[0], suffix + CLEANED)
        if disk.exists(path):
            disk.unlink(path)  # of an attempt that did not come to its end
    target = Segment(
        OpenFiles(disk), plan.directory, group[0], index_interval_bytes=plan.index_interval_bytes, state=CLEANED
    )
    try:
        writer = _Writer(target)
        for base in group:
            for batch in _batches(disk, plan.directory, base):
                kept = judge.verdict(batch)
                if kept is not None:
                    writer.add(kept)
        writer.flush()
        target.seal()
        for file in target.files.hold_all():
            file.fsync()
        disk.set_mtime_ms(target.file.path, disk.mtime_ms(_path(plan.directory, group[-1], LOG)))
        return target.size
    finally:
        target.files.close()


class _Kept(NamedTuple):
    """A batch for the new segment, and the aborted transaction that it ends, if any."""

    header: BatchHeader
    data: Buffer
    aborted: AbortedEntry | None = None


class _Writer:
    """Gathers batches into large writes."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._waiting: list[_Kept] = []
        self._waiting_bytes = 0

    def add(self, kept: _Kept) -> None:
        """Put a batch at the end of the segment."""
        self._waiting.append(kept)
        self._waiting_bytes += len(kept.data)
        if self._waiting_bytes >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._waiting:
            return
        self._segment.write([kept.data for kept in self._waiting])
        for header, data, aborted in self._waiting:
            self._segment.note(header.base_offset, header.last_offset, header.max_timestamp, len(data))
            if aborted is not None:
                self._segment.transaction_index.entries.append(aborted)
        self._waiting.clear()
        self._waiting_bytes = 0


class _Judge:
    """Decides about one batch after the other, in the order of the log."""

    def __init__(self, plan: CompactionPlan, keys: KeyOffsets, aborted: _AbortedRanges, newest: _Newest) -> None:
        self.records_before = 0
        self.records_after = 0
        self._plan = plan
        self._keys = keys
        self._aborted = aborted
        self._newest = newest
        # Producers with a transaction of which a batch was kept: the marker that follows must be kept too.
        self._kept_transactions: set[ProducerId] = set()

    def verdict(self, batch: ScannedBatch) -> _Kept | None:
        """What becomes of a batch; None if it goes."""
        header = batch.header
        self.records_before += header.record_count
        if header.last_offset >= self._keys.end_offset:
            kept: _Kept | None = _Kept(header, batch.data, self._aborted.by_marker.get(header.base_offset))
        elif header.is_control:
            kept = self._judge_marker(batch)
        else:
            kept = self._judge_data(batch)
        if header.is_control:
            self._kept_transactions.discard(header.producer_id)
        elif header.is_transactional and kept is not None:
            self._kept_transactions.add(header.producer_id)
        self.records_after += 0 if kept is None else kept.header.record_count
        return kept

    def _judge_marker(self, batch: ScannedBatch) -> _Kept | None:
        """A marker goes when nothing of its transaction is left and its own horizon has passed; it is never emptied."""
        header = batch.header
        if header.record_count == 0:
            return None
        aborted = self._aborted.by_marker.get(header.base_offset)
        if header.producer_id in self._kept_transactions or header.base_offset in self._newest.markers:
            return _Kept(header, batch.data, aborted)
        if not header.has_delete_horizon:
            header, data = self._with_horizon(header, *_decode(batch))
            return _Kept(header, data, aborted)
        if self._plan.now_ms >= header.base_timestamp:
            return None
        return _Kept(header, batch.data, aborted)

    def _judge_data(self, batch: ScannedBatch) -> _Kept | None:
        header = batch.header
        is_last_of_producer = header.last_offset in self._newest.batches
        payload, found = _decode(batch)
        kept = [] if self._aborted.holds(header) else [span for span in found if self._is_kept(header, span)]
        if not kept:
            return _emptied(header) if is_last_of_producer else None
        lacks_horizon = not header.has_delete_horizon and any(span.is_tombstone for span in kept)
        if len(kept) == len(found) and not lacks_horizon:
            return _Kept(header, batch.data)
        if len(kept) < len(found) and not is_last_of_producer:
            header = _with_largest_timestamp_of(kept, header)
        if lacks_horizon:
            return _Kept(*self._with_horizon(header, payload, kept))
        return _Kept(*_written(header, b"".join([payload[span.start : span.end] for span in kept]), len(kept)))

    def _is_kept(self, header: BatchHeader, span: RecordSpan) -> bool:
        if span.key is None or not self._keys.is_newest(span.key, header.base_offset + span.offset_delta):
            return False
        has_passed_horizon = header.has_delete_horizon and self._plan.now_ms >= header.base_timestamp
        return not (span.is_tombstone and has_passed_horizon)

    def _with_horizon(
        self, header: BatchHeader, payload: bytes, kept: Sequence[RecordSpan]
    ) -> tuple[BatchHeader, bytearray]:
        """The batch with the time after which its tombstones, or the marker in it, may go; record times stay what they were."""
        horizon = self._plan.now_ms + self._plan.delete_retention_ms
        shift = header.base_timestamp - horizon
        data = b"".join(
            rebase(payload, span, timestamp_delta=span.timestamp_delta + shift, offset_delta=span.offset_delta)
            for span in kept
        )
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon)
        return _written(header, data, len(kept))


def _decode(batch: ScannedBatch) -> tuple[bytes, list[RecordSpan]]:
    payload = payload_of(batch.data, batch.header, max_bytes=_DECOMPRESSED_BYTES_MAX)
    return payload, list(spans(batch.header, payload))


def _with_largest_timestamp_of(kept: Sequence[RecordSpan], header: BatchHeader) -> BatchHeader:
    """The header for the records left, unless the broker's clock gave one time to all."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header
    return header._replace(max_timestamp=header.base_timestamp + max(span.timestamp_delta for span in kept))


def _emptied(header: BatchHeader) -> _Kept:
    """A batch of no records that still tells its producer's epoch and last sequence."""
    return _Kept(
        *_written(
            header._replace(
                attributes=header.attributes & ~CODEC_MASK & ~DELETE_HORIZON_BIT, base_timestamp=NO_TIMESTAMP
            ),
            b"",
            0,
        )
    )


def _written(header: BatchHeader, payload: bytes, record_count: int) -> tuple[BatchHeader, bytearray]:
    codec = header.codec
    header = header._replace(record_count=record_count)
    return header, write_batch(header, payload if codec is Codec.NONE else compress(codec, payload))


def _batches(disk: Disk, directory: str, base_offset: Offset) -> Iterator[ScannedBatch]:
    """Every batch of a segment, its checksum checked: a rewritten batch gets a new one, which must not bless rot."""
    file = disk.open(_path(directory, base_offset, LOG))
    try:
        for batch in scan_batches(file, 0, file.size()):
            if not crc_holds(batch.data, 0, batch.header):
                raise CorruptBatch(f"the checksum of the batch at {batch.position} of {file.path} does not hold")
            yield batch
    finally:
        file.close()


def _headers(disk: Disk, directory: str, base_offset: Offset) -> Iterator[BatchHeader]:
    """Every batch header of a segment, without reading the records."""
    file = disk.open(_path(directory, base_offset, LOG))
    try:
        for _, header in scan_headers(file, 0, file.size()):
            yield header
    finally:
        file.close()


def _size(disk: Disk, directory: str, base_offset: Offset, suffix: str) -> int:
    path = _path(directory, base_offset, suffix)
    if not disk.exists(path):
        return 0
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _path(directory: str, base_offset: Offset, suffix: str) -> str:
    return f"{directory}/{file_name(base_offset, suffix)}"

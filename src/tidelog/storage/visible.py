"""How many records a reader of committed records would get between two offsets, told by batch headers and transaction indexes.

Offsets alone do not say it: markers take some, aborted transactions others, and compaction leaves gaps. No record is decoded for it. The
work is done in steps of a few milliseconds; between two of them segments may come, go and be compacted, so nothing but offsets is kept.

Below the last stable offset every transaction is decided, and stays so: what was counted of a segment from its beginning on is kept with it,
until the log is cut.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model import ApiError, ErrorCode, Offset, ProducerId
from tidelog.records.batch import CONTROL_BIT, HEADER_SIZE, LENGTH_OVERHEAD, TRANSACTIONAL_BIT, CorruptBatch
from tidelog.runtime import File
from tidelog.storage.segment import Segment, VisiblePrefix
from tidelog.storage.segment_list import SegmentList

BATCHES_PER_STEP: Final = 200
ENTRIES_PER_STEP: Final = 1_000
"""About a millisecond of work."""

_CHUNK: Final = 8 << 10
_HEADER: Final = Struct(
    ">qi9xhi16xq6xi"
)  # base offset, length, attributes, last offset delta, producer id, record count
_DECIDED: Final = 2**63


class _Batch(NamedTuple):
    """What a header says that matters here."""

    base_offset: Offset
    last_offset: Offset
    attributes: int
    producer_id: ProducerId
    record_count: int

    @property
    def is_data_of_a_transaction(self) -> bool:
        """Whether it takes an index to know if the records are visible."""
        return self.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT) == TRANSACTIONAL_BIT


class VisibleCounting:
    """Counts the records in [start, end), where `end` is not above the last stable offset. `ReadableLog.count_visible` does its steps."""

    def __init__(self, start_offset: Offset, end_offset: Offset) -> None:
        self.end_offset: Final = end_offset
        self.next_offset = start_offset
        """Everything before it was counted."""
        self.count = 0
        self.is_exact = True
        """Whether no batch with gaps was cut by the start or the end: of such a one it is not known where the gaps are."""
        self.work = 0
        """Batches and index entries looked at so far."""
        self._aborted = _AbortedRanges(start_offset)
        self._cut_count: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether the end was reached."""
        return self.next_offset >= self.end_offset

    def step(self, segments: SegmentList, log_start_offset: Offset, cut_count: int) -> None:
        """Count a little further. Raises CorruptBatch, StorageFailure; ApiError if the log was cut since the step before."""
        if self._cut_count not in (None, cut_count):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log was cut while its records were counted")
        self._cut_count = cut_count
        self.next_offset = max(self.next_offset, log_start_offset)
        if self.is_done:
            return
        segment = segments.from_offset(self.next_offset)[0]
        limit = min(self.end_offset, segments.end_of(segment, self.end_offset))
        is_whole = max(self.next_offset, log_start_offset) <= segment.base_offset
        known = segment.visible_prefix
        if known is not None and known.cut_count != cut_count:
            known = segment.visible_prefix = None
        if is_whole and known is not None and known.end_offset <= limit:
            self.work += 1
            self.count += known.record_count
            self.next_offset = known.end_offset
            return
        self._scan(segments, segment, limit, is_whole=is_whole)

    def _scan(self, segments: SegmentList, segment: Segment, limit: Offset, *, is_whole: bool) -> None:
        start = self.next_offset
        position = segment.locate(start)
        batches = [] if position is None else _batches(segment.file, position, segment.size, limit)
        end = limit if len(batches) < BATCHES_PER_STEP else min(batches[-1].last_offset + 1, limit)
        self.work += 1 + len(batches)
        if any(batch.is_data_of_a_transaction for batch in batches) and not self._know_aborted(segments, end):
            return  # The rest of what the indexes say comes first.
        count = sum(self._visible_in(batch, start, end) for batch in batches)
        self.count += count
        self.next_offset = end
        if not batches or batches[-1].last_offset < end:
            self._keep(segment, start, VisiblePrefix(self._cut_count or 0, end, count), is_whole=is_whole)

    def _know_aborted(self, segments: SegmentList, end: Offset) -> bool:
        self.work += self._aborted.learn(segments, end)
        return self._aborted.decided_to >= end

    def _visible_in(self, batch: _Batch, start: Offset, end: Offset) -> int:
        base, last, attributes, producer_id, record_count = batch
        if attributes & CONTROL_BIT or record_count == 0:
            return 0
        if attributes & TRANSACTIONAL_BIT and self._aborted.has(producer_id, base):
            return 0
        if base >= start and last < end:
            return record_count
        wanted = min(last + 1, end) - max(base, start)
        if record_count == last - base + 1:
            return wanted
        self.is_exact = False
        return min(record_count, wanted)

    def _keep(self, segment: Segment, start: Offset, found: VisiblePrefix, *, is_whole: bool) -> None:
        """What was found from the beginning of a segment on, or right after what is kept of it already."""
        known = segment.visible_prefix
        if is_whole:
            segment.visible_prefix = found
        elif known is not None and known.end_offset == start:
            segment.visible_prefix = found._replace(record_count=known.record_count + found.record_count)


class _AbortedRanges:
    """The aborted transactions that the indexes tell of, read as far ahead as needed. Asked from lower to higher offsets only."""

    def __init__(self, start_offset: Offset) -> None:
        self._read_to = start_offset - 1  # All entries whose markers lie up to here were read, or do not matter.
        self.decided_to = start_offset
        """Of every transaction that began before this it is known whether it was aborted."""
        self._ranges: dict[ProducerId, deque[tuple[Offset, Offset]]] = {}

    def learn(self, segments: SegmentList, end: Offset) -> int:
        """Read on, until all below `end` is known or it is enough for a step; how many entries were read."""
        read = 0
        if self.decided_to >= end:
            return read
        for segment in segments.from_offset(self._read_to + 1):
            for entry in segment.transaction_index.after(self._read_to):
                self._ranges.setdefault(entry.producer_id, deque()).append((entry.first_offset, entry.last_offset))
                self._read_to = entry.last_offset
                self.decided_to = max(self.decided_to, entry.last_stable_offset)
                read += 1
                if self.decided_to >= end or read >= ENTRIES_PER_STEP:
                    return read
        self.decided_to = _DECIDED  # Where there are no more entries, all that is stable was committed.
        return read

    def has(self, producer_id: ProducerId, offset: Offset) -> bool:
        """Whether what the producer wrote at `offset` was aborted."""
        ranges = self._ranges.get(producer_id) or deque()
        while ranges and ranges[0][1] < offset:
            ranges.popleft()
        return bool(ranges) and ranges[0][0] <= offset


def _batches(file: File, position: int, end: int, limit: Offset) -> list[_Batch]:
    """The next batches that begin before the offset `limit`, not more than for one step. Raises CorruptBatch."""
    found: list[_Batch] = []
    size = 0
    while position < end:
        # After a large batch another is likely, of which nothing but the header is wanted.
        chunk = file.pread(position, min(HEADER_SIZE if size > _CHUNK // 2 else _CHUNK, end - position))
        room = len(chunk) - HEADER_SIZE
        if room < 0:
            raise CorruptBatch(f"{len(chunk)} bytes at {position} of {file.path} are no batch")
        at = 0
        while at <= room:
            base, length, attributes, last_delta, producer_id, record_count = _HEADER.unpack_from(chunk, at)
            if length < HEADER_SIZE - LENGTH_OVERHEAD or last_delta < 0 or record_count < 0:
                raise CorruptBatch(f"no batch at {position + at} of {file.path}")
            if base >= limit or len(found) == BATCHES_PER_STEP:
                return found
            found.append(_Batch(base, base + last_delta, attributes, producer_id, record_count))
            size = LENGTH_OVERHEAD + length
            at += size
        position += at
    return found

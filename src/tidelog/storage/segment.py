"""One segment: a file of batches from its base offset on, and the three indexes that find things in it.

Only the last segment of a log takes appends; the others are sealed. Indexes are hints to be rebuilt from the file, never trusted over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.model import NO_OFFSET, NO_TIMESTAMP, Offset, TimestampMs
from tidelog.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, CorruptBatch
from tidelog.runtime import File
from tidelog.runtime.disk import Buffer
from tidelog.storage.names import LOG
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.scan import locate, scan_headers
from tidelog.storage.segment_files import SegmentFiles
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.transaction_index import TransactionIndex

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
_HINTS_MAX: Final = 256


class VisiblePrefix(NamedTuple):
    """How many records below an offset a reader of committed records gets of a segment; true until the log is cut."""

    cut_count: int
    end_offset: Offset
    record_count: int


class Segment:
    """Batches with offsets in [base offset, base offset of the next segment)."""

    __slots__ = (
        "_batches",
        "_first_timestamp_ms",
        "_hints",
        "_older_hints",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "files",
        "index_interval_bytes",
        "largest_timestamp_ms",
        "offset_index",
        "offset_of_largest_timestamp",
        "size",
        "time_index",
        "transaction_index",
        "visible_prefix",
    )

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: Offset, *, index_interval_bytes: int, state: str = ""
    ) -> None:
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.files = SegmentFiles(files, directory, base_offset, state)
        self._batches = self.files.batches
        self.offset_index = OffsetIndex(self.files.offset_index, base_offset)
        self.time_index = TimeIndex(self.files.time_index, base_offset)
        self.transaction_index = TransactionIndex(self.files.transaction_index)
        self.size = self._batches.use(create=True).size()
        self.created_ms: TimestampMs = 0
        self.largest_timestamp_ms: TimestampMs = NO_TIMESTAMP
        self.offset_of_largest_timestamp: Offset = NO_OFFSET
        self._first_timestamp_ms: TimestampMs | None = None
        self._unindexed_bytes = 0
        # Base offset -> position of recent batches, so that readers at the tail need no search. Two generations bound it.
        self._hints: dict[Offset, int] = {}
        self.visible_prefix: VisiblePrefix | None = None  # what `visible` has counted, so that it need not again
        self._older_hints: dict[Offset, int] = {}

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)}, size={self.size})"

    @property
    def file(self) -> File:
        """The batches. Open until others need the descriptor, so not to be kept; for as long as the segment is held."""
        return self._batches.use()

    def path(self, suffix: str) -> str:
        """Where the file with this suffix is."""
        return self.files.path(suffix)

    def load_indexes(self, end_offset: Offset) -> bool:
        """Read the indexes of a sealed segment that ends before `end_offset`; False if any of them must be rebuilt."""
        if not (
            self.offset_index.load(self.size)
            and self.time_index.load()
            and self.transaction_index.load(self.base_offset, end_offset)
        ):
            return False
        newest = self.time_index.last()
        if newest is not None:
            self.largest_timestamp_ms, self.offset_of_largest_timestamp = newest
        last_indexed = self.offset_index.last_offset()
        return max(last_indexed, self.offset_of_largest_timestamp) < end_offset and self._is_end_indexed()

    def _is_end_indexed(self) -> bool:
        """Whether what follows the last index entries is as short, and as old, as it would be had no entry been lost."""
        unindexed = 0
        # The interval may have been another when the entries were made; then they lie farther apart.
        unindexed_max = max(self.index_interval_bytes, self.offset_index.last_distance())
        try:
            for _, header in scan_headers(self.file, self.offset_index.last_position(), self.size):
                if unindexed > unindexed_max or header.max_timestamp > self.largest_timestamp_ms:
                    return False
                unindexed += header.size
        except CorruptBatch:
            return False
        return True

    def load_tail(self) -> Offset:
        """Walk what the indexes do not cover yet, so that appends can go on; the offset after the last batch. Raises CorruptBatch."""
        next_offset = self.base_offset
        position = self.offset_index.last_position()
        self._unindexed_bytes = 0
        for at, header in scan_headers(self.file, position, self.size):
            self._note_timestamp(header.max_timestamp, header.last_offset)
            self._unindexed_bytes += header.size
            self._hints[header.base_offset] = at
            next_offset = header.next_offset
        return next_offset

    def begin_rebuild(self) -> None:
        """Forget the indexes and everything derived; `note` puts it back batch by batch. The file stays as it is."""
        self.offset_index.entries.reset()
        self.time_index.reset()
        self.transaction_index.entries.reset()
        self.size = 0
        self.largest_timestamp_ms = NO_TIMESTAMP
        self.offset_of_largest_timestamp = NO_OFFSET
        self._forget_positions()

    def write(self, chunks: Sequence[Buffer]) -> None:
        """Put bytes at the end of the file; they belong to the segment once each of their batches is noted."""
        self._batches.use().pwrite(self.size, chunks)

    def note(self, base_offset: Offset, last_offset: Offset, max_timestamp_ms: TimestampMs, size: int) -> None:
        """The next `size` bytes of the file are a batch."""
        position = self.size
        if max_timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms = max_timestamp_ms
            self.offset_of_largest_timestamp = last_offset
        if position == 0:
            self._first_timestamp_ms = max_timestamp_ms
        if self._unindexed_bytes > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.largest_timestamp_ms, self.offset_of_largest_timestamp)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size
        hints = self._hints
        hints[base_offset] = position
        if len(hints) >= _HINTS_MAX:
            self._older_hints, self._hints = hints, {}
        self.size = position + size

    def locate(self, offset: Offset) -> int | None:
        """Position of the first batch whose last offset is `offset` or later; None if the segment ends before. Raises CorruptBatch."""
        position = self._hints.get(offset)
        if position is None:
            position = self._older_hints.get(offset)
            if position is None:
                position = self.offset_index.position_before(offset)
                return locate(self._batches.use(), position, self.size, offset)
        return position

    def read(self, position: int, end: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Up to `max_bytes` of [position, end), but if `at_least_one` no less than the first batch. Raises CorruptBatch."""
        if position >= end:
            return b""
        file = self._batches.use()
        data = file.pread(position, min(max_bytes, end - position)) if max_bytes > 0 else b""
        prefix = data if len(data) >= LENGTH_OVERHEAD else file.pread(position, LENGTH_OVERHEAD)
        first_size = LENGTH_OVERHEAD + int.from_bytes(prefix[8:12], "big", signed=True)
        if not HEADER_SIZE <= first_size <= end - position:
            raise CorruptBatch(f"no batch at {position} of {self._batches.path}")
        if first_size <= len(data):
            return data
        return file.pread(position, first_size) if at_least_one else b""

    def scan_headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch header from the boundary `position` on. Raises CorruptBatch."""
        return scan_headers(self.file, position, self.size)

    def first_timestamp_ms(self) -> TimestampMs:
        """Largest timestamp of the first batch, -1 without one: where the time until the next roll is counted from."""
        if self._first_timestamp_ms is None:
            if self.size == 0:
                return NO_TIMESTAMP
            try:
                _, header = next(self.scan_headers())
            except CorruptBatch:
                return NO_TIMESTAMP
            self._first_timestamp_ms = header.max_timestamp
        return self._first_timestamp_ms

    def seal(self) -> None:
        """No more appends: the last word in the time index, and all indexes in their files."""
        self.time_index.maybe_append(self.largest_timestamp_ms, self.offset_of_largest_timestamp)
        for entries in (self.offset_index.entries, self.time_index.entries, self.transaction_index.entries):
            entries.spill()
        self._hints, self._older_hints = {}, {}

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop the batch that holds `offset` and all after it; the offset after the last batch left.

        Where rot keeps us from finding that place the whole segment is dropped: the leader has it all.
        """
        try:
            position = self.locate(offset)
            return self._truncate(self.size if position is None else position, offset)
        except CorruptBatch:
            return self._truncate(0, self.base_offset)

    def _truncate(self, position: int, offset: Offset) -> Offset:
        file = self._batches.use()
        file.truncate(position)
        file.fsync()  # Else a crash may bring the rest back, behind batches written since.
        self.size = position
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.truncate_to(offset)
        newest = self.time_index.last()
        self.largest_timestamp_ms, self.offset_of_largest_timestamp = newest or (NO_TIMESTAMP, NO_OFFSET)
        self._forget_positions()
        return self.load_tail()

    def _note_timestamp(self, timestamp_ms: TimestampMs, offset: Offset) -> None:
        if timestamp_ms > self.largest_timestamp_ms:
            self.largest_timestamp_ms = timestamp_ms
            self.offset_of_largest_timestamp = offset

    def _forget_positions(self) -> None:
        self._hints, self._older_hints = {}, {}
        self._first_timestamp_ms = None
        self._unindexed_bytes = 0

"""The segments of one log in order, and every change to which segments there are: begin, retire, cut, swap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tidelog.config import LogConfig
from tidelog.model import Offset, TimestampMs, invariant
from tidelog.runtime import DiskFull, FileMissing, StorageFailure
from tidelog.storage.durability import Durability
from tidelog.storage.floors import Floors, raise_floors
from tidelog.storage.names import DELETED, SEGMENT_SUFFIXES
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.segment import Segment
from tidelog.storage.swap import commit_swap, finish_swap
from tidelog.storage.values import Retired


class SegmentList:
    """At least one segment; the last one is `active` and takes the appends. Raises StorageFailure, for the log to judge."""

    __slots__ = (
        "_directory",
        "_disk",
        "_durability",
        "_files",
        "_held",
        "_retired",
        "active",
        "all",
        "bases",
        "config",
    )

    def __init__(
        self, files: OpenFiles, directory: str, segments: list[Segment], durability: Durability, config: LogConfig
    ) -> None:
        self._files = files
        self._disk = files.disk
        self._directory = directory
        self._durability = durability
        self._retired: list[Retired] = []
        self._held: list[Segment] = []  # The active segment, and those that were until a flush has covered them.
        self.config = config
        self._set(segments)

    def _set(self, segments: list[Segment]) -> None:
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.active.files.hold_batches()
        if self.active not in self._held:
            self._held.append(self.active)

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The segment that may hold `offset`, and those after it."""
        if offset >= self.active.base_offset:
            return [self.active]
        return self.all[max(bisect_right(self.bases, offset) - 1, 0) :]

    def offset_after_read(self, offset: Offset, size: int) -> Offset | None:
        """An offset not below what a read of `size` bytes from `offset` gave; None if that may reach to the end. Raises CorruptBatch."""
        for segment in self.from_offset(offset):
            position = segment.locate(offset)
            if position is not None:
                found = segment.offset_index.offset_after(position + size)
                following = bisect_right(self.bases, segment.base_offset)
                return self.bases[following] if found is None and following < len(self.bases) else found
        return None

    def ends_before(self, segment: Segment, offset: Offset) -> bool:
        """Whether a segment is sealed and all it holds is below `offset`."""
        number = bisect_right(self.bases, segment.base_offset)
        return number < len(self.bases) and self.bases[number] <= offset

    def end_of(self, segment: Segment, log_end_offset: Offset) -> Offset:
        """The offset that a segment's records stay below."""
        number = bisect_right(self.bases, segment.base_offset)
        return self.bases[number] if number < len(self.bases) else log_end_offset

    def rest_flushed(self) -> None:
        """After a flush: sealed segments that no flush is to cover any more need not stay open."""
        if self._durability.is_flushing:
            return
        for segment in [*self._held, *self._durability.take_flushed()]:
            if segment is not self.active and segment not in self._durability.sealed:
                segment.files.rest()
        self._held = [segment for segment in self._held if segment is self.active or segment in self._durability.sealed]

    def begin(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        """Go on in a new segment; the old one has been sealed."""
        old, fresh = self.active, self._new(base_offset, now_ms)
        self._durability.sealed.append(old)
        self._durability.is_wanted = True
        self._set([*self.all, fresh])

    def retire_first(self, count: int, now_ms: TimestampMs) -> list[Segment]:
        """Take the oldest segments out of the log."""
        gone = self.all[:count]
        is_one_by_one = False
        if count > 1 or self._durability.are_names_unflushed:
            # Of several renames a crash may keep any; the hole that leaves must not look like loss.
            start = self.bases[count]
            floors = Floors(min(start, self._durability.recovery_point), start)
            try:
                raise_floors(self._disk, self._directory, floors)
            except DiskFull:
                is_one_by_one = True  # Retention is what ends a full disk, so it needs no space itself.
                self._disk.fsync_dir(self._directory)
        self._set(self.all[count:])
        for segment in gone:
            self._retire(segment, now_ms)
            if is_one_by_one:
                self._disk.fsync_dir(self._directory)
        return gone

    def cut(self, offset: Offset, now_ms: TimestampMs) -> Offset:
        """Drop all from `offset` on: first whole segments, then the rest of the one that holds it; the offset where the log now ends."""
        keep = max(bisect_right(self.bases, offset), 1)
        while keep > 1 and self.bases[keep - 1] >= offset:
            keep -= 1  # A segment that would be left empty goes too.
        gone = self.all[keep:]
        self._set(self.all[:keep])
        self._retire_durably(gone, now_ms)
        return self.active.truncate_to(offset)

    def restart(self, offset: Offset, now_ms: TimestampMs) -> None:
        """Drop every segment and begin an empty one, durably."""
        self._retire_durably(self.all, now_ms)
        try:
            self._set([self._new(offset, now_ms)])
        except DiskFull as full:  # This one does not pass: the log has no segment left to go on with.
            raise StorageFailure(full.operation, full.path, full.reason) from full
        self._disk.fsync_dir(self._directory)
        self._durability.make_directory_durable()

    def replace(self, *, cleaned: Sequence[Offset], replaced: Sequence[Offset], now_ms: TimestampMs) -> None:
        """Swap compacted segments in; see `swap`."""
        gone = [segment for segment in self.all if segment.base_offset in replaced]
        invariant(len(gone) == len(replaced) > 0, "every replaced segment is still in the log")
        invariant(self.active not in gone, "the active segment is never compacted")
        end = self.bases[self.all.index(gone[-1]) + 1]
        invariant(end <= self._durability.recovery_point, "only what is durable is compacted")
        raise_floors(self._disk, self._directory, Floors(recovery_point=end))
        commit_swap(self._disk, self._directory, cleaned=cleaned, replaced=replaced)
        for segment in gone:
            self._retire(segment, now_ms)
        finish_swap(self._disk, self._directory, cleaned=cleaned)
        fresh = [self._open_swapped(base, end) for base in cleaned]
        kept = [segment for segment in self.all if segment not in gone]
        self._set(sorted([*kept, *fresh], key=lambda segment: segment.base_offset))

    def take_retired(self) -> list[Retired]:
        """Files to be unlinked; they are the caller's from now on."""
        retired, self._retired = self._retired, []
        return retired

    def _new(self, base_offset: Offset, now_ms: TimestampMs) -> Segment:
        segment = self._open(base_offset)
        segment.created_ms = now_ms
        self._durability.are_names_unflushed = True
        return segment

    def _open(self, base_offset: Offset) -> Segment:
        interval = self.config.index_interval_bytes
        return Segment(self._files, self._directory, base_offset, index_interval_bytes=interval)

    def _open_swapped(self, base_offset: Offset, end_offset: Offset) -> Segment:
        segment = self._open(base_offset)
        segment.created_ms = segment.files.mtime_ms()
        invariant(segment.size == 0 or segment.load_indexes(end_offset), "the cleaner leaves sound indexes")
        return segment

    def _retire(self, segment: Segment, now_ms: TimestampMs) -> None:
        """Take a segment's files out of sight, to be unlinked after file.delete.delay.ms."""
        not_before_ms = now_ms + self.config.file_delete_delay_ms
        self._durability.are_names_unflushed = True
        self._retired.extend(Retired(path, not_before_ms) for path in self._renamed(segment))
        self._held = [other for other in self._held if other is not segment]
        self._durability.let_go((segment,))

    def _renamed(self, segment: Segment) -> Iterator[str]:
        for suffix in SEGMENT_SUFFIXES:
            path = segment.path(suffix)
            try:
                self._disk.rename(path, path + DELETED)
            except FileMissing:
                continue
            yield path + DELETED

    def _retire_durably(self, gone: Sequence[Segment], now_ms: TimestampMs) -> None:
        """The last one first and each made durable, so that a crash in between leaves no hole."""
        for segment in reversed(gone):
            self._retire(segment, now_ms)
            self._disk.fsync_dir(self._directory)

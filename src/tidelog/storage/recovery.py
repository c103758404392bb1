"""Opening a log: what a clean shutdown left is taken as it is, what a crash left is read again from the recovery point on.

Below the recovery point everything was made durable, so damage there is not the work of a crash: bytes stay as they are, a reader gets an
error, and only indexes are rebuilt. From the recovery point on the first byte that does not fit ends the log (D02, D04). Every step can
be interrupted and begun again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from tidelog.config import LogConfig
from tidelog.model import NO_LEADER_EPOCH, Offset, TimestampMs
from tidelog.records.batch import HEADER_SIZE, CorruptBatch, crc_holds, read_header
from tidelog.runtime import Disk, FileMissing
from tidelog.storage.checkpoints import DamagedCheckpoint, EpochStart, decode_epochs
from tidelog.storage.epoch_cache import LeaderEpochCache
from tidelog.storage.floors import Floors, begin_floors, read_floors
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT, LOG, SEGMENT_SUFFIXES, parse_file_name
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.producer_state import ProducerStates
from tidelog.storage.scan import ScannedBatch, read_batch, scan_batches, scan_headers
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tidelog.storage.snapshots import SnapshotFiles, marker_of, producers_at
from tidelog.storage.swap import resolve_interrupted_swaps
from tidelog.storage.truncation_point import read_truncation_point
from tidelog.storage.values import Opening

NO_END: Final = 1 << 63


@dataclass(slots=True)
class LoadedLog:
    """A log as it was found, ready for appends to its last segment."""

    segments: list[Segment]
    epochs: LeaderEpochCache
    producers: ProducerStates
    snapshots: SnapshotFiles
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    unflushed_sealed: list[Segment] = field(default_factory=list)
    """Sealed segments that were rebuilt and must be made durable before the recovery point passes them."""
    is_as_closed: bool = False
    """Whether a clean shutdown has left everything a closed log needs, so that closing it again writes nothing."""
    is_cut_short: bool = False
    """Whether the log ends where something did not fit, other than the half of a last batch that a killed process leaves."""
    are_epochs_changed: bool = False
    are_names_changed: bool = False


def load_log(files: OpenFiles, directory: str, config: LogConfig, opening: Opening, now_ms: TimestampMs) -> LoadedLog:
    """Open what is in `directory`, or begin an empty log there."""
    disk = files.disk
    truncated_to = read_truncation_point(disk, directory)
    if truncated_to is not None and not opening.is_clean:
        opening = replace(
            opening,
            recovery_point=min(opening.recovery_point, truncated_to),
            log_start_offset=min(opening.log_start_offset, truncated_to),
        )
    floors = read_floors(disk, directory) or Floors()
    opening = replace(
        opening,
        recovery_point=max(opening.recovery_point, floors.recovery_point),
        log_start_offset=max(opening.log_start_offset, floors.log_start_offset),
    )
    _remove_segments_before(disk, directory, floors.log_start_offset)
    return _Loader(files, directory, config, opening, now_ms).load()


def _remove_segments_before(disk: Disk, directory: str, floor: Offset) -> None:
    """Finish a deletion by retention that a crash took back in part: what came back has holes, and says old things of producers."""
    parsed = [(found, name) for name in disk.listdir(directory) if (found := parse_file_name(name)) is not None]
    bases = sorted({base for (base, kind, state), _ in parsed if kind == LOG and not state})
    doomed = {base for base, following in pairwise(bases) if following <= floor}
    for (base, _, state), name in parsed:
        if base in doomed and not state:
            disk.unlink(f"{directory}/{name}")


class _Loader:
    def __init__(
        self, files: OpenFiles, directory: str, config: LogConfig, opening: Opening, now_ms: TimestampMs
    ) -> None:
        self._files = files
        self._disk = files.disk
        self._directory = directory
        self._config = config
        self._opening = opening
        self._now_ms = now_ms
        self._segments: list[Segment] = []
        self._unflushed: list[Segment] = []
        self._recovered_epoch = NO_LEADER_EPOCH
        self._are_names_changed = False
        self._is_cut_short = False

    def load(self) -> LoadedLog:
        self._are_names_changed = resolve_interrupted_swaps(self._disk, self._directory)
        self._open_segments()
        self._snapshots = SnapshotFiles(self._disk, self._directory)
        stored_epochs = self._read_epochs()
        self._epochs = LeaderEpochCache(stored_epochs or ())
        unsound, log_end_offset = self._load_indexes()
        first = self._first_to_recover(is_tail_sound=log_end_offset is not None)
        if 0 < first < len(self._segments) and self._segments[first].base_offset == self._opening.recovery_point:
            # The segment before was flushed to its last batch, but perhaps sealed only after that: its indexes may be half written.
            unsound.append(first - 1)
        for number in sorted(set(unsound)):
            if number < first:
                self._rebuild_indexes(self._segments[number])
        if stored_epochs is None:
            self._rebuild_epochs(first)
        if first < len(self._segments):
            log_end_offset = self._recover_from(first)
        return self._finish(stored_epochs, log_end_offset or 0)

    def _open_segments(self) -> None:
        bases: set[Offset] = set()
        others: list[tuple[Offset, str]] = []
        for name in self._disk.listdir(self._directory):
            found = parse_file_name(name)
            if found is not None and found[1] == LOG:
                bases.add(found[0])
            elif found is not None and found[1] in SEGMENT_SUFFIXES:
                others.append((found[0], name))
        for base, name in others:
            if base not in bases:
                self._disk.unlink(f"{self._directory}/{name}")
                self._are_names_changed = True
        self._segments = [self._segment(base) for base in sorted(bases)]
        if not self._segments:
            self._begin_at(self._opening.log_start_offset)

    def _begin_at(self, base_offset: Offset) -> None:
        segment = self._segment(base_offset)
        segment.begin_rebuild()
        segment.created_ms = self._now_ms
        self._segments = [segment]
        self._are_names_changed = True

    def _segment(self, base_offset: Offset) -> Segment:
        interval = self._config.index_interval_bytes
        return Segment(self._files, self._directory, base_offset, index_interval_bytes=interval)

    def _read_epochs(self) -> list[EpochStart] | None:
        try:
            return decode_epochs(self._disk.read(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"))
        except (FileMissing, DamagedCheckpoint):
            return None

    def _end_of(self, number: int) -> Offset:
        return self._segments[number + 1].base_offset if number + 1 < len(self._segments) else NO_END

    def _load_indexes(self) -> tuple[list[int], Offset | None]:
        """Numbers of segments whose indexes must be rebuilt, and the log end offset if the last segment's end is as it should be."""
        unsound = [
            number for number, segment in enumerate(self._segments) if not self._load_one(segment, self._end_of(number))
        ]
        last = self._segments[-1]
        if len(self._segments) - 1 in unsound:
            return unsound, None
        try:
            return unsound, last.load_tail()
        except CorruptBatch:
            return unsound, None

    def _load_one(self, segment: Segment, end_offset: Offset) -> bool:
        segment.created_ms = segment.files.mtime_ms()
        if segment.size == 0:
            segment.begin_rebuild()
            return True
        return segment.load_indexes(end_offset)

    def _first_to_recover(self, *, is_tail_sound: bool) -> int:
        """Number of the first segment to be read and checked whole; after a clean shutdown none, or a last one that is damaged."""
        count = len(self._segments)
        if self._opening.is_clean:
            return count if is_tail_sound else count - 1
        first = count - 1
        while first > 0 and self._segments[first].base_offset > self._opening.recovery_point:
            first -= 1
        return first

    def _rebuild_indexes(self, segment: Segment) -> None:
        """Write the indexes of a durable segment anew. Damage in it is left alone, for the reader to find."""
        end = segment.file.size()
        producers = self._producers_at(segment.base_offset)
        segment.begin_rebuild()
        try:
            for position, header in scan_headers(segment.file, 0, end):
                marker = marker_of(header, read_batch(segment.file, position, header)) if header.is_control else None
                finished = producers.apply(header, marker)
                if finished is not None and finished.is_aborted:
                    segment.transaction_index.append_finished(finished, producers.stable_offset_after(finished))
                segment.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
        except CorruptBatch:
            segment.size = end
        segment.seal()
        self._unflushed.append(segment)

    def _rebuild_epochs(self, first_to_recover: int) -> None:
        """Without a usable checkpoint the epochs are those of the batches; the segments to be recovered are read then."""
        for segment in self._segments[:first_to_recover]:
            try:
                for _, header in segment.scan_headers():
                    if header.leader_epoch != self._epochs.latest:
                        self._epochs.assign(header.leader_epoch, header.base_offset)
            except CorruptBatch:
                continue

    def _recover_from(self, first: int) -> Offset:
        """Read every segment from number `first` on, check every byte, and end the log where something does not fit."""
        segments = self._segments
        base_offset = segments[first].base_offset
        self._snapshots.discard_after(base_offset)
        self._epochs.truncate_from_end(base_offset)
        self._producers = self._producers_at(base_offset)
        next_offset = base_offset
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > first:
                if self._is_suffix_lost(next_offset, segment):
                    self._is_cut_short = True
                    self._remove_from(number)
                    break
                segments[number - 1].seal()
                self._unflushed.append(segments[number - 1])
                snapshot = self._snapshots.write(segment.base_offset, self._producers)
                snapshot.fsync()
                snapshot.close()
            end = segment.size
            next_offset = self._recover(segment, max(next_offset, segment.base_offset), self._end_of(number))
            if segment.size < end:
                self._is_cut_short = not self._is_half_batch(segment, end) or number + 1 < len(segments)
                self._remove_from(number + 1)
                segment.file.truncate(segment.size)
                segment.file.fsync()  # Else a later crash may bring the rest back, behind batches written since.
                break
        return next_offset

    def _is_half_batch(self, segment: Segment, end: int) -> bool:
        """Whether what is cut away at the end of the log can be a write that its process did not live to finish."""
        if self._opening.is_clean:
            return False
        rest = segment.file.pread(segment.size, HEADER_SIZE)
        try:
            return len(rest) < HEADER_SIZE or segment.size + read_header(rest).size > end
        except CorruptBatch:
            return False

    def _recover(self, segment: Segment, next_offset: Offset, end_offset: Offset) -> Offset:
        """Rebuild a segment from its batches; its size afterwards is where the first thing that does not fit begins."""
        end = segment.size
        segment.begin_rebuild()
        try:
            for batch in scan_batches(segment.file, 0, end):
                header = batch.header
                if not self._fits(batch, segment.base_offset, next_offset, end_offset):
                    break
                self._recovered_epoch = header.leader_epoch
                self._epochs.assign(header.leader_epoch, header.base_offset)
                finished = self._producers.apply(header, marker_of(header, batch.data))
                if finished is not None and finished.is_aborted:
                    segment.transaction_index.append_finished(finished, self._producers.stable_offset_after(finished))
                segment.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
                next_offset = header.next_offset
        except CorruptBatch:
            pass
        return next_offset

    def _fits(self, batch: ScannedBatch, base_offset: Offset, next_offset: Offset, end_offset: Offset) -> bool:
        header = batch.header
        return (
            next_offset <= header.base_offset
            and header.last_offset < end_offset
            and header.last_offset - base_offset <= RELATIVE_OFFSET_MAX
            # Epochs only grow. A smaller one is a remnant from before a truncation that the crash took back in part.
            and header.leader_epoch >= self._recovered_epoch
            and crc_holds(batch.data, 0, header)
        )

    def _is_suffix_lost(self, next_offset: Offset, following: Segment) -> bool:
        """Whether batches are missing between two segments: a crash may lose the end of one file and keep the next file.

        A log rolls exactly at its end, so a gap means loss; except in what compaction has rewritten, which is always below the recovery
        point. A log that Kafka compacted does not say how far, so without a recovery point it gets the benefit of the doubt.
        """
        if following.base_offset - next_offset > RELATIVE_OFFSET_MAX:
            return False  # No segment that could have been lost spans as much; a follower found its leader's log so.
        if self._config.is_compacted and self._opening.recovery_point == 0:
            return read_floors(self._disk, self._directory) is not None and following.base_offset != next_offset
        return following.base_offset != next_offset

    def _remove_from(self, number: int) -> None:
        """Remove segments, the last one first and each durably, so that a crash in between leaves no hole."""
        while len(self._segments) > number:
            segment = self._segments.pop()
            segment.files.close()
            for suffix in SEGMENT_SUFFIXES:
                path = segment.path(suffix)
                if self._disk.exists(path):
                    self._disk.unlink(path)
            self._disk.fsync_dir(self._directory)

    def _producers_at(self, offset: Offset) -> ProducerStates:
        return producers_at(
            offset,
            self._segments,
            self._snapshots,
            now_ms=self._now_ms,
            expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _finish(self, stored_epochs: list[EpochStart] | None, log_end_offset: Offset) -> LoadedLog:
        log_start_offset = self._opening.log_start_offset
        if log_end_offset < log_start_offset:
            self._remove_from(0)
            self._begin_at(log_start_offset)
            self._unflushed.clear()
            log_end_offset = log_start_offset
        log_start_offset = max(log_start_offset, self._segments[0].base_offset)
        if self._config.is_compacted and log_end_offset == self._segments[0].base_offset:
            begin_floors(self._disk, self._directory)
        self._epochs.truncate_from_end(log_end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        self._snapshots.discard_after(log_end_offset)
        self._snapshots.discard_strays(self._segments)
        recovery_point = log_end_offset if self._opening.is_clean else min(self._opening.recovery_point, log_end_offset)
        return LoadedLog(
            segments=self._segments,
            epochs=self._epochs,
            producers=self._producers_at(log_end_offset),
            snapshots=self._snapshots,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            unflushed_sealed=[segment for segment in self._unflushed if segment is not self._segments[-1]],
            is_as_closed=self._opening.is_clean and log_end_offset in self._snapshots.offsets,
            is_cut_short=self._is_cut_short,
            are_epochs_changed=list(self._epochs.entries) != stored_epochs,
            # A process that was killed may have left names that only the page cache knows.
            are_names_changed=self._are_names_changed or not self._opening.is_clean,
        )

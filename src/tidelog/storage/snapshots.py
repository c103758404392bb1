"""The producer snapshots of one log on its disk, and the replay of the log from the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

from tidelog.model import Offset, TimestampMs
from tidelog.records.batch import BatchHeader, CorruptBatch
from tidelog.records.control import Marker, read_marker
from tidelog.runtime import Disk, File, FileMissing
from tidelog.runtime.disk import Buffer
from tidelog.storage.names import SNAPSHOT, file_name, parse_file_name
from tidelog.storage.producer_snapshot import DamagedSnapshot, decode_snapshot, encode_snapshot
from tidelog.storage.producer_state import ProducerStates
from tidelog.storage.scan import read_batch
from tidelog.storage.segment import Segment

# How far back earlier batches of a producer are looked for, when it sends one again after a restart.
RECALLED_BYTES: Final = 4 << 20
RECALLED_BATCHES: Final = 2_000
RECALLED_PIECE: Final = 64 << 10


class SnapshotFiles:
    """Which snapshots there are. The log keeps one per segment and the newest."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        names = (parse_file_name(name) for name in disk.listdir(directory))
        self.offsets: set[Offset] = {found[0] for found in names if found is not None and found[1:] == (SNAPSHOT, "")}

    def path(self, offset: Offset) -> str:
        """Where the snapshot for this offset is."""
        return f"{self._directory}/{file_name(offset, SNAPSHOT)}"

    def write(self, offset: Offset, producers: ProducerStates) -> File:
        """Write what is known of the producers below `offset`; the open file, for the next flush to make durable."""
        file = self._disk.open(self.path(offset), create=True)
        content = encode_snapshot(producers.to_snapshot())
        file.pwrite(0, (content,))
        if file.size() != len(content):
            file.truncate(len(content))
        self.offsets.add(offset)
        return file

    def make_durable(self, offset: Offset) -> None:
        """Have the snapshot for this offset on the disk with its name, if there is one."""
        if offset in self.offsets:
            with closing(self._disk.open(self.path(offset))) as file:
                file.fsync()
            self._disk.fsync_dir(self._directory)

    def newest(self, start_offset: Offset, end_offset: Offset) -> tuple[Offset, ProducerStates]:
        """The newest whole snapshot for an offset in [start, end] and its producers; nobody at `start_offset` if there is none."""
        for offset in sorted(self.offsets, reverse=True):
            if start_offset <= offset <= end_offset:
                try:
                    return offset, ProducerStates(decode_snapshot(self._disk.read(self.path(offset))))
                except (DamagedSnapshot, FileMissing):
                    self.discard((offset,))
        return start_offset, ProducerStates()

    def discard(self, offsets: Iterable[Offset]) -> None:
        """Remove these snapshots."""
        for offset in list(offsets):
            if offset in self.offsets:
                self.offsets.discard(offset)
                if self._disk.exists(self.path(offset)):
                    self._disk.unlink(self.path(offset))

    def discard_after(self, offset: Offset) -> None:
        """Remove snapshots of what is no longer, or not yet known to be, in the log."""
        self.discard([known for known in self.offsets if known > offset])

    def discard_strays(self, segments: Sequence[Segment]) -> None:
        """Remove snapshots that belong to no segment, except the newest of all."""
        bases = {segment.base_offset for segment in segments}
        newest = max(self.offsets, default=None)
        self.discard([offset for offset in self.offsets if offset not in bases and offset != newest])


def producers_at(
    offset: Offset, segments: Sequence[Segment], snapshots: SnapshotFiles, *, now_ms: TimestampMs, expiration_ms: int
) -> ProducerStates:
    """What the log below `offset` says of its producers: the newest snapshot, and a replay of the batches after it.

    A snapshot from before the first segment is of no use: the markers of its open transactions may be gone.
    """
    start_offset, producers = snapshots.newest(segments[0].base_offset, offset)
    producers.expire(now_ms, expiration_ms)
    for number, segment in enumerate(segments):
        is_before = number + 1 < len(segments) and segments[number + 1].base_offset <= start_offset
        if not is_before and segment.base_offset < offset:
            _replay(segment, start_offset, offset, producers)
    return producers


def headers_before(offset: Offset, segments: Sequence[Segment]) -> Iterator[BatchHeader]:
    """Headers of the batches that end below an offset, newest first: so many, and so many bytes back, at most. Damage leaves some out."""
    bytes_left, batches_left = RECALLED_BYTES, RECALLED_BATCHES
    for segment in reversed(segments):
        end = _position_of(offset, segment)
        while end > 0 and bytes_left > 0 and batches_left > 0:
            begin = segment.offset_index.boundary_before(max(end - RECALLED_PIECE, 0))
            headers = _headers_between(segment, begin, end)
            yield from reversed(headers)
            bytes_left -= end - begin
            batches_left -= len(headers)
            end = begin


def _position_of(offset: Offset, segment: Segment) -> int:
    """Where the batches of a segment end that end below an offset."""
    if segment.base_offset >= offset:
        return 0
    try:
        position = segment.locate(offset)
    except CorruptBatch:
        return 0
    return segment.size if position is None else position


def _headers_between(segment: Segment, begin: int, end: int) -> list[BatchHeader]:
    headers = []
    try:
        for position, header in segment.scan_headers(begin):
            if position >= end:
                break
            headers.append(header)
    except CorruptBatch:
        return headers
    return headers


def marker_of(header: BatchHeader, batch: Buffer) -> Marker | None:
    """The transaction marker in a batch; None for data, and for markers that say nothing to us."""
    if not header.is_control:
        return None
    try:
        return read_marker(batch)
    except CorruptBatch:
        return None


def _replay(segment: Segment, start_offset: Offset, end_offset: Offset, producers: ProducerStates) -> None:
    """Damage ends the replay of a segment early: its records cannot be read either, and the log goes on after it."""
    try:
        position = segment.locate(start_offset)
        if position is None:
            return
        for at, header in segment.scan_headers(position):
            if header.base_offset >= end_offset:
                return
            if header.has_producer:
                marker = marker_of(header, read_batch(segment.file, at, header)) if header.is_control else None
                producers.apply(header, marker)
    except CorruptBatch:
        return

"""Rot: batches that no longer are what was written. Found where bytes leave the log, and, before a replica is repaired, in all of it.

The checksum covers everything of a batch but its base offset and leader epoch, which a leader stamps; that the offsets of a segment only
grow and stay within it covers the first of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.model import Offset
from tidelog.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, CorruptBatch, crc_holds
from tidelog.runtime import Disk, FileMissing
from tidelog.runtime.disk import Buffer
from tidelog.storage.names import LOG
from tidelog.storage.scan import scan_batches
from tidelog.storage.segment import Segment

_HEADER: Final = struct.Struct(">qi4xbI2xi")  # base offset, length, magic, checksum, last offset delta
_CHECKED_FROM: Final = 21
_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_OVERHEAD


class Sound(NamedTuple):
    """How much of some bytes is as it was written."""

    size: int
    damaged_from: Offset | None = None


def sound_prefix(data: Buffer, offset: Offset, end_offset: Offset) -> Sound:
    """Check batches that were read at `offset`, from a segment that ends before `end_offset`; half a batch at the end is not judged.

    Whoever reads old records waits for this, so a batch costs about a microsecond.
    """
    view, size = memoryview(data), len(data)
    next_offset, position, least = offset, 0, 0
    before = Sound(0, offset)
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, crc, delta = _HEADER.unpack_from(view, position)
        end = position + LENGTH_OVERHEAD + length
        last_offset = base_offset + delta
        if magic != MAGIC or length < _LENGTH_MIN or delta < 0 or not next_offset <= last_offset < end_offset:
            return Sound(position, next_offset)
        if base_offset < least:  # One of the two is not where it says, and nobody knows which.
            return before
        if end > size:
            break
        if crc32c(view[position + _CHECKED_FROM : end]) != crc:
            return Sound(position, next_offset)
        before = Sound(position, next_offset)
        least = next_offset = last_offset + 1
        position = end
    return Sound(size)


class Stretch(NamedTuple):
    """A segment as a thread may read it, while its log goes on."""

    path: str
    size: int
    base_offset: Offset
    end_offset: Offset


def stretches(segments: Sequence[Segment], log_end_offset: Offset) -> list[Stretch]:
    """All of a log as it is now."""
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    return [
        Stretch(segment.path(LOG), segment.size, segment.base_offset, end)
        for segment, end in zip(segments, ends, strict=True)
    ]


def first_damage(disk: Disk, parts: Sequence[Stretch]) -> Offset | None:
    """Read everything; where the first thing is that does not fit. For the directory's threads. Raises StorageFailure."""
    for part in parts:
        next_offset = part.base_offset
        try:
            with closing(disk.open(part.path)) as file:
                for batch in scan_batches(file, 0, part.size):
                    header = batch.header
                    is_in_place = next_offset <= header.base_offset <= header.last_offset < part.end_offset
                    if not is_in_place or not crc_holds(batch.data, 0, header):
                        return next_offset
                    next_offset = header.next_offset
        except CorruptBatch:
            return next_offset
        except FileMissing:
            continue  # Retention has taken it meanwhile.
    return None

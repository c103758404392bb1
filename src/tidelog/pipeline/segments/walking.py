"""Reads one range of a segment, window by window, and finds its batches, or says why the bytes are none.

Files are read with pread and not mapped: a broker at work may cut a file short, which kills whoever has mapped it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from tidelog.pipeline.codec.records_kernel import Bytes, Int64s
from tidelog.pipeline.segments import kernel
from tidelog.pipeline.segments.boundaries import Boundaries
from tidelog.pipeline.segments.planning import SegmentRange
from tidelog.records.batch import HEADER_SIZE, MAGIC, CorruptBatch, read_header

WINDOW_BYTES: Final = 8 << 20
_ROWS_MAX: Final = 32_768
_MAGIC_AT: Final = 16

ZEROS: Final = "zeros to the end of the file"
VANISHED: Final = "the file is gone"
SHORTER: Final = "the file has become shorter"


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches that follow each other, as rows of the kernel with positions in the file, and whether each checksum holds."""

    rows: Int64s
    crc_ok: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBatch:
    """Bytes that are no batch, and why."""

    position: int
    size: int
    reason: str


Found: TypeAlias = Batches | NoBatch


def walk_range(wanted: SegmentRange) -> Iterator[Found]:
    """Everything in a range, in order; each byte belongs to one of the found."""
    try:
        descriptor = os.open(wanted.segment.path, os.O_RDONLY)
    except FileNotFoundError:
        yield NoBatch(position=wanted.start, size=wanted.size, reason=VANISHED)
        return
    except OSError as error:
        yield NoBatch(position=wanted.start, size=wanted.size, reason=_unreadable(error))
        return
    try:
        yield from _Walk(descriptor, wanted).found()
    finally:
        os.close(descriptor)


class _Walk:
    def __init__(self, descriptor: int, wanted: SegmentRange) -> None:
        self._descriptor = descriptor
        self._wanted = wanted
        self._end = wanted.end
        self._window = np.empty(min(WINDOW_BYTES, wanted.size), np.uint8)

    def found(self) -> Iterator[Found]:
        position = self._wanted.start
        while position < self._end:
            try:
                window = self._read(position)
            except OSError as error:
                yield NoBatch(position=position, size=self._end - position, reason=_unreadable(error))
                return
            rows = np.empty((_ROWS_MAX, kernel.ROW_WIDTH), np.int64)
            count = kernel.walk(window, rows)
            if count:
                found: Found = _checked(window, rows[:count], position)
                position = int(rows[count - 1, kernel.POSITION] + rows[count - 1, kernel.SIZE])
            else:
                found = self._large_batch(window, position) or self._no_batch(window, position)
                position += int(found.rows[0, kernel.SIZE]) if isinstance(found, Batches) else found.size
            yield found

    def _read(self, position: int) -> Bytes:
        """Bytes from a position on: less than asked for only where the file has become shorter."""
        window = self._window[: min(len(self._window), self._end - position)]
        count = os.preadv(self._descriptor, [window.data], position)
        return window[:count]

    def _large_batch(self, window: Bytes, position: int) -> Batches | None:
        """The batch at a position if it is larger than a window; its checksum and digest are those of all its bytes."""
        try:
            header = read_header(window.data)
        except CorruptBatch:
            return None
        if len(window) < len(self._window) or position + header.size > self._end:
            return None
        data = np.empty(header.size, np.uint8)
        if not self._fill(data, position):
            return None
        rows = np.empty((1, kernel.ROW_WIDTH), np.int64)
        return _checked(data, rows, position) if kernel.walk(data, rows) else None

    def _fill(self, data: Bytes, position: int) -> bool:
        done = 0
        while done < len(data):
            count = os.preadv(self._descriptor, [data[done : done + WINDOW_BYTES].data], position + done)
            if count == 0:
                return False
            done += count
        return True

    def _no_batch(self, window: Bytes, position: int) -> NoBatch:
        rest = self._end - position
        if not len(window):
            return NoBatch(position=position, size=rest, reason=SHORTER)
        if not window.any() and self._is_zero_from(position):
            return NoBatch(position=position, size=rest, reason=ZEROS)
        resumed = Boundaries(self._descriptor, self._wanted.segment.index_path, self._end).after(position)
        return NoBatch(
            position=position,
            size=rest if resumed is None else resumed - position,
            reason=_reason(window.data, rest),
        )

    def _is_zero_from(self, position: int) -> bool:
        """Whether the file, and not only the range, holds nothing more."""
        position += len(self._window)
        while position < self._wanted.segment.size:
            data = os.pread(self._descriptor, WINDOW_BYTES, position)
            if data.count(0) != len(data):
                return False
            position += len(data) or WINDOW_BYTES
        return True


def _checked(window: Bytes, rows: Int64s, position: int) -> Batches:
    view = window.data
    claimed = rows[:, [kernel.POSITION, kernel.SIZE, kernel.CRC]].tolist()
    crc_ok = [crc32c(view[start + kernel.CHECKED_FROM : start + size]) == crc for start, size, crc in claimed]
    rows[:, kernel.POSITION] += position
    return Batches(rows, np.array(crc_ok, np.bool_))


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


def _reason(window: memoryview, rest: int) -> str:
    if rest < HEADER_SIZE:
        return f"cut short: {rest} bytes are no whole batch header"
    if window[_MAGIC_AT] != MAGIC:
        return f"no batch: record format {window[_MAGIC_AT]} where only {MAGIC} can be"
    try:
        header = read_header(window)
    except CorruptBatch:
        return "no batch: its length is less than a header"
    if header.size > rest:
        return f"cut short: a batch of {header.size} bytes where {rest} are left"
    return f"no batch: offset {header.base_offset} and {header.last_offset_delta} more cannot be"

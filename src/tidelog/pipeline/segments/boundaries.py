"""Positions in a segment where a batch is known to begin, from its offset index, each proved before it is believed.

An index carries no checksum, and that of a segment which was being written may end in zeros or be behind. So an entry is only a hint: a
batch begins there if the bytes there are one, and its checksum holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np
from crc32c import crc32c

from tidelog.pipeline.codec.records_kernel import Int64s
from tidelog.pipeline.segments import kernel
from tidelog.records.batch import HEADER_SIZE, CorruptBatch, read_header

_ENTRY: Final = np.dtype(">i4")
_TRIES: Final = 8
_PROOF_BYTES_MAX: Final = 32 << 20


class Boundaries:
    """Batch boundaries of one open segment."""

    def __init__(self, descriptor: int, index_path: str, end: int) -> None:
        self._descriptor = descriptor
        self._end = end
        self._positions = _positions(index_path, end)

    def after(self, position: int) -> int | None:
        """A boundary beyond `position`, near it if the index is any good; None if it names none before the end."""
        first = int(np.searchsorted(self._positions, position, side="right"))
        for candidate in self._positions[first : first + _TRIES].tolist():
            if self._is_boundary(candidate):
                return int(candidate)
        return None

    def every(self, bytes_wanted: int) -> Iterator[int]:
        """Boundaries about so many bytes apart, not near the end."""
        position = 0
        while position + bytes_wanted + bytes_wanted // 2 < self._end:
            found = self.after(position + bytes_wanted - 1)
            if found is None or found >= self._end:
                return
            yield found
            position = found

    def _is_boundary(self, position: int) -> bool:
        head = os.pread(self._descriptor, HEADER_SIZE, position)
        try:
            header = read_header(head)
        except CorruptBatch:
            return False
        if header.size > min(_PROOF_BYTES_MAX, self._end - position):
            return False
        checked = os.pread(self._descriptor, header.size - kernel.CHECKED_FROM, position + kernel.CHECKED_FROM)
        return crc32c(checked) == header.crc


def _positions(path: str, end: int) -> Int64s:
    """In order; nothing where there is no index, or it makes no sense."""
    try:
        entries = np.fromfile(path, _ENTRY)
    except OSError:
        return np.empty(0, np.int64)
    positions = entries[1 : len(entries) // 2 * 2 : 2].astype(np.int64)
    return np.unique(positions[(positions > 0) & (positions < end)])

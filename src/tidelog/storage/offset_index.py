"""The offset index: about every 4 KiB of a segment, the last offset of an append and the position where that append begins."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.model import Offset
from tidelog.storage.entry_file import EntryFile
from tidelog.storage.open_files import LazyFile


class OffsetEntry(NamedTuple):
    """An offset relative to the segment's base, and a position at or before the batch that holds it."""

    relative_offset: int
    position: int


class OffsetIndex:
    """The `.index` file of one segment."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, file: LazyFile, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.entries: EntryFile[OffsetEntry] = EntryFile(file, _LAYOUT, OffsetEntry._make)

    def load(self, log_size: int) -> bool:
        """Read the file; False unless it can be trusted: whole entries, the last of them within the log and above zero.

        Kafka fills the file of an active segment with zeros to its full size; after its crash the last entry is such a zero.
        """
        if not self.entries.load():
            return False
        last = self.entries.last()
        return last is None or (last.relative_offset >= 0 and 0 <= last.position < log_size and last != _ZERO)

    def is_full(self, bytes_max: int) -> bool:
        """Whether the segment must roll because the file may not grow."""
        return len(self.entries) >= bytes_max // _LAYOUT.size

    def append(self, offset: Offset, position: int) -> None:
        """Offsets up to `offset` are found from `position` on."""
        self.entries.append(OffsetEntry(offset - self.base_offset, position))

    def position_before(self, offset: Offset) -> int:
        """A batch boundary at or before the batch that holds `offset`, not far from it."""
        count = self.entries.count_up_to(_relative_offset, offset - self.base_offset)
        return self.entries.entry(count - 1).position if count else 0

    def last_offset(self) -> Offset:
        """The offset of the newest entry, or the base offset."""
        last = self.entries.last()
        return self.base_offset if last is None else self.base_offset + last.relative_offset

    def last_position(self) -> int:
        """The position of the newest entry, or 0."""
        last = self.entries.last()
        return 0 if last is None else last.position

    def last_distance(self) -> int:
        """How many bytes lie between the two newest entries: more than the interval they were made with."""
        count = len(self.entries)
        return 0 if count == 0 else self.last_position() - (self.entries.entry(count - 2).position if count > 1 else 0)

    def boundary_before(self, position: int) -> int:
        """Where a batch begins, at or not far before `position`."""
        count = self.entries.count_up_to(_position, position)
        return self.entries.entry(count - 1).position if count else 0

    def offset_after(self, position: int) -> Offset | None:
        """An offset not below any batch that begins before `position`, and not far above; None if the index ends before that."""
        count = self.entries.count_up_to(_position, position - 1)
        return self.base_offset + self.entries.entry(count).relative_offset if count < len(self.entries) else None

    def truncate_to(self, offset: Offset) -> None:
        """Forget entries for `offset` and later."""
        self.entries.keep(self.entries.count_up_to(_relative_offset, offset - self.base_offset - 1))


_LAYOUT: Final = struct.Struct(">ii")
_ZERO: Final = OffsetEntry(0, 0)


def _position(entry: OffsetEntry) -> int:
    return entry.position


def _relative_offset(entry: OffsetEntry) -> int:
    return entry.relative_offset

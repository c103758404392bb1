"""The time index: the largest timestamp so far, and the last offset of the batch that carried it. Both strictly increase."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.model import Offset, TimestampMs
from tidelog.storage.entry_file import EntryFile
from tidelog.storage.open_files import LazyFile


class TimeEntry(NamedTuple):
    """A timestamp that nothing before it exceeds, and where it was."""

    timestamp_ms: TimestampMs
    relative_offset: int


class TimeIndex:
    """The `.timeindex` file of one segment."""

    __slots__ = ("base_offset", "entries", "last_timestamp_ms")

    def __init__(self, file: LazyFile, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.entries: EntryFile[TimeEntry] = EntryFile(file, _LAYOUT, TimeEntry._make)
        self.last_timestamp_ms: TimestampMs = -1

    def load(self) -> bool:
        """Read the file; False unless it can be trusted: whole entries, growing, the last of them not one of Kafka's zeros."""
        if not self.entries.load():
            return False
        count = len(self.entries)
        if count == 0:
            return True
        last, before = self.entries.entry(count - 1), self.entries.entry(max(0, count - 2))
        self.last_timestamp_ms = last.timestamp_ms
        is_growing = count == 1 or (
            before.timestamp_ms < last.timestamp_ms and before.relative_offset < last.relative_offset
        )
        return is_growing and last.timestamp_ms >= 0 and last.relative_offset >= 0 and last != _ZERO

    def is_full(self, bytes_max: int) -> bool:
        """Whether the segment must roll because only the slot for the entry of the roll is left."""
        return len(self.entries) >= bytes_max // _LAYOUT.size - 1

    def maybe_append(self, timestamp_ms: TimestampMs, offset: Offset) -> bool:
        """Note that `timestamp_ms` at `offset` is the largest so far, unless the last entry says so already."""
        if timestamp_ms <= self.last_timestamp_ms:
            return False
        self.entries.append(TimeEntry(timestamp_ms, offset - self.base_offset))
        self.last_timestamp_ms = timestamp_ms
        return True

    def last(self) -> tuple[TimestampMs, Offset] | None:
        """The newest entry, with an absolute offset."""
        return self._absolute(len(self.entries))

    def last_up_to_timestamp(self, timestamp_ms: TimestampMs) -> tuple[TimestampMs, Offset] | None:
        """The newest entry whose timestamp is not larger: every batch before that of its offset is older than `timestamp_ms`."""
        return self._absolute(self.entries.count_up_to(_timestamp, timestamp_ms))

    def last_before_offset(self, offset: Offset) -> tuple[TimestampMs, Offset] | None:
        """The newest entry for a batch that ends before `offset`."""
        return self._absolute(self.entries.count_up_to(_relative_offset, offset - self.base_offset - 1))

    def truncate_to(self, offset: Offset) -> None:
        """Forget entries for `offset` and later."""
        self.entries.keep(self.entries.count_up_to(_relative_offset, offset - self.base_offset - 1))
        last = self.entries.last()
        self.last_timestamp_ms = -1 if last is None else last.timestamp_ms

    def reset(self) -> None:
        """Forget everything."""
        self.entries.reset()
        self.last_timestamp_ms = -1

    def _absolute(self, count: int) -> tuple[TimestampMs, Offset] | None:
        if count == 0:
            return None
        entry = self.entries.entry(count - 1)
        return entry.timestamp_ms, self.base_offset + entry.relative_offset


_LAYOUT: Final = struct.Struct(">qi")
_ZERO: Final = TimeEntry(0, 0)


def _timestamp(entry: TimeEntry) -> int:
    return entry.timestamp_ms


def _relative_offset(entry: TimeEntry) -> int:
    return entry.relative_offset

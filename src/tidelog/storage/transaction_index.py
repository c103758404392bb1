"""The transaction index: the aborted transactions whose markers lie in a segment, so that readers know what to skip (KIP-98)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import Offset, ProducerId
from tidelog.storage.entry_file import EntryFile
from tidelog.storage.open_files import LazyFile
from tidelog.storage.producer_state import FinishedTransaction


class AbortedTransaction(NamedTuple):
    """Records of `producer_id` from `first_offset` up to its next abort marker are to be skipped."""

    producer_id: ProducerId
    first_offset: Offset


class AbortedEntry(NamedTuple):
    """An aborted transaction as stored: its abort marker is at `last_offset`."""

    version: int
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset
    """The last stable offset once the marker was written: transactions that began later are in later entries only."""


class TransactionIndex:
    """The `.txnindex` file of one segment.

    Kafka makes the file with its first entry; we make an empty one when a segment is sealed, so that a lost file is noticed and rebuilt.
    """

    __slots__ = ("entries",)

    def __init__(self, file: LazyFile) -> None:
        self.entries: EntryFile[AbortedEntry] = EntryFile(file, _LAYOUT, AbortedEntry._make)

    def load(self, base_offset: Offset, end_offset: Offset) -> bool:
        """Read the file; False unless it can be trusted: whole entries of version 0, in order, their markers within the segment."""
        if not self.entries.load():
            return False
        newest = base_offset - 1
        for entry in self.entries:
            if entry.version != _VERSION or not newest < entry.last_offset < end_offset:
                return False
            newest = entry.last_offset
        return True

    def append_finished(self, finished: FinishedTransaction, last_stable_offset: Offset) -> None:
        """Note an aborted transaction; its marker is the newest in the segment."""
        self.entries.append(
            AbortedEntry(
                _VERSION, finished.producer_id, finished.first_offset, finished.last_offset, last_stable_offset
            )
        )

    def collect(self, start_offset: Offset, end_offset: Offset, into: list[AbortedTransaction]) -> bool:
        """Add what a reader of [start, end) must know; True when later segments cannot hold more of it."""
        first = self.entries.count_up_to(_last_offset, start_offset - 1)
        for number in range(first, len(self.entries)):
            entry = self.entries.entry(number)
            if entry.first_offset < end_offset:
                into.append(AbortedTransaction(entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end_offset:
                return True
        return False

    def after(self, offset: Offset) -> Iterator[AbortedEntry]:
        """The entries whose markers lie behind `offset`."""
        entries = self.entries
        return map(entries.entry, range(entries.count_up_to(_last_offset, offset), len(entries)))

    def truncate_to(self, offset: Offset) -> None:
        """Forget transactions whose marker is at `offset` or later."""
        self.entries.keep(self.entries.count_up_to(_last_offset, offset - 1))


_VERSION: Final = 0
_LAYOUT: Final = struct.Struct(">hqqqq")


def _last_offset(entry: AbortedEntry) -> int:
    return entry.last_offset

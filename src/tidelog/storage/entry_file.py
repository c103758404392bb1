"""A file of fixed-size entries that only grows at its end: the ground the offset, time and transaction indexes stand on.

The newest entries wait in memory and are written in blocks; what a crash takes with it is rebuilt from the log. Lookups in what is written
are binary searches with small reads, so an index costs memory for its tail only, whatever its size.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.runtime import DiskFull, File, FileMissing
from tidelog.storage.open_files import LazyFile

E = TypeVar("E", bound=NamedTuple)

SPILL_ENTRIES: Final = 256
_READ_ENTRIES: Final = 4096


class EntryFile(Generic[E]):
    """Entries in order, `stored` of them in the file and the rest in `tail`. The file is opened when needed and made when written."""

    __slots__ = ("_file", "_layout", "_make", "stored", "tail")

    def __init__(self, file: LazyFile, layout: struct.Struct, make: Callable[[tuple[int, ...]], E]) -> None:
        self._file = file
        self._layout = layout
        self._make = make
        self.stored = 0
        self.tail: list[E] = []

    def __len__(self) -> int:
        return self.stored + len(self.tail)

    def __iter__(self) -> Iterator[E]:
        for start in range(0, self.stored, _READ_ENTRIES):
            count = min(_READ_ENTRIES, self.stored - start)
            block = self.file().pread(start * self._layout.size, count * self._layout.size)
            yield from map(self._make, self._layout.iter_unpack(block))
        yield from self.tail

    def load(self) -> bool:
        """Take what the file holds; False if there is no file or its size is that of no whole number of entries."""
        try:
            size = self.file().size()
        except FileMissing:
            return False
        self.stored, rest = divmod(size, self._layout.size)
        return rest == 0

    def append(self, entry: E) -> None:
        """Put an entry at the end."""
        self.tail.append(entry)
        if len(self.tail) >= SPILL_ENTRIES:
            self._spill_if_there_is_space()

    def entry(self, number: int) -> E:
        """The entry with this number, counted from 0."""
        if number >= self.stored:
            return self.tail[number - self.stored]
        return self._make(self._layout.unpack(self.file().pread(number * self._layout.size, self._layout.size)))

    def last(self) -> E | None:
        """The newest entry."""
        count = len(self)
        return self.entry(count - 1) if count else None

    def count_up_to(self, key: Callable[[E], int], bound: int) -> int:
        """How many entries have a key of at most `bound`, keys being in order."""
        low, high = 0, len(self)
        if self.tail and key(self.tail[0]) <= bound:
            low = self.stored + 1
        while low < high:
            middle = (low + high) // 2
            if key(self.entry(middle)) <= bound:
                low = middle + 1
            else:
                high = middle
        return low

    def keep(self, count: int) -> None:
        """Forget all entries but the first `count`."""
        if count >= self.stored:
            del self.tail[count - self.stored :]
            return
        self.tail.clear()
        self.stored = count
        self.file().truncate(count * self._layout.size)

    def reset(self) -> None:
        """Forget all entries, whatever the file holds; where there is no file, none is made."""
        self.tail.clear()
        self.stored = 0
        with contextlib.suppress(FileMissing):
            self.file().truncate(0)

    def spill(self) -> None:
        """Write the tail and cut the file to its entries."""
        file = self.file(create=True)
        size = self._layout.size
        if self.tail:
            file.pwrite(self.stored * size, (b"".join([self._layout.pack(*entry) for entry in self.tail]),))
            self.stored += len(self.tail)
            self.tail.clear()
        if file.size() != self.stored * size:
            file.truncate(self.stored * size)

    def file(self, *, create: bool = False) -> File:
        """The open file; raises FileMissing unless `create`."""
        return self._file.use(create=create)

    def _spill_if_there_is_space(self) -> None:
        try:
            self.spill()
        except DiskFull:
            # The entries stay in memory until the next try. They cannot pile up: a full disk takes no batches to index either.
            return

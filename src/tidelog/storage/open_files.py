"""Files that open when they are used and close when others need the descriptor.

A broker has far more files than it may open: four to a segment, a hundred segments to a log, a thousand logs. Those being written and those
a flush holds stay open; of all others in a log directory, only those used last.
"""

from __future__ import annotations

from typing import Final

from tidelog.runtime import Disk, File

RESTING_MAX: Final = 256
"""Opening a file again costs some ten microseconds, so this need not be large. A walk over a segment needs the segment's four files."""


class OpenFiles:
    """The descriptors of one log directory that may be closed at any time, in the order of their last use."""

    __slots__ = ("_resting", "disk", "resting_max")

    def __init__(self, disk: Disk, *, resting_max: int = RESTING_MAX) -> None:
        self.disk = disk
        self.resting_max = resting_max
        self._resting: dict[LazyFile, None] = {}

    @property
    def resting_count(self) -> int:
        """How many files are open that may be closed."""
        return len(self._resting)

    def rest(self, file: LazyFile) -> None:
        """The file was used just now, and may be closed once it is the one used longest ago."""
        self._resting.pop(file, None)
        self._resting[file] = None
        if len(self._resting) > self.resting_max:
            next(iter(self._resting)).close()

    def forget(self, file: LazyFile) -> None:
        """The file is closed, or held."""
        self._resting.pop(file, None)


class LazyFile:
    """One path, opened by `use`. Until `hold` it may be closed behind its user's back by the next use of any other file."""

    __slots__ = ("_file", "_files", "_is_held", "path")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._file: File | None = None
        self._is_held = False
        self.path = path

    def use(self, *, create: bool = False) -> File:
        """The open file. Raises FileMissing unless `create`."""
        file = self._file
        if file is None:
            file = self._file = self._files.disk.open(self.path, create=create)
        if not self._is_held:
            self._files.rest(self)
        return file

    def hold(self) -> None:
        """Keep it open, from its next use on, until `release`."""
        self._is_held = True
        self._files.forget(self)

    def release(self) -> None:
        """It may be closed again."""
        if self._is_held:
            self._is_held = False
            if self._file is not None:
                self._files.rest(self)

    def close(self) -> None:
        """Give the descriptor back; the next use opens the file again."""
        self._files.forget(self)
        if self._file is not None:
            self._file.close()
            self._file = None

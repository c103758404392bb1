"""Room on the disks of a broker: who may still write when there is hardly any.

Records are refused from the first time that a directory was found full until there is room to speak of again. What little there is, and
what was kept in reserve, is for everything else, which is small: checkpoints, indexes, epochs, new names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.runtime.reserve import Reserve

T = TypeVar("T")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_RECORDS: Final = ".log"


class Rooms:
    """The directories of a broker that keep a reserve."""

    def __init__(self) -> None:
        self._reserves: dict[str, Reserve] = {}
        self._short: set[str] = set()
        self.are_short = False
        """Whether any of them has been found full. Looked at before each write, so it costs no more than this."""

    def keep(self, directory: str, reserve: Reserve) -> None:
        """Keep this reserve in a directory that is there, or take the directory for full if there is no room for it."""
        directory = os.path.normpath(directory)
        self._reserves[directory] = reserve
        if not reserve.keep():
            self._note_short(directory)

    def is_short(self, path: str) -> bool:
        """Whether what holds this path was found full, and still is; looks again."""
        directory = self._directory_of(path)
        if directory not in self._short or directory is None:
            return False
        if not self._reserves[directory].keep():
            return True
        self._short.discard(directory)
        self.are_short = bool(self._short)
        return False

    def check(self, path: str) -> None:
        """Raise ENOSPC where a file may not have what little there is."""
        if path.endswith(_RECORDS) and self.is_short(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def made_for(self, path: str, error: OSError) -> bool:
        """Whether something that failed may be tried again, since a piece of the reserve was given up for it."""
        if error.errno not in _FULL or (directory := self._directory_of(path)) is None:
            return False
        self._note_short(directory)
        return not path.endswith(_RECORDS) and self._reserves[directory].give_up()

    def tried(self, path: str, work: Callable[[], T]) -> T:
        """What `work` returns, done again if there was no room for it at first. Raises OSError."""
        while True:
            try:
                return work()
            except OSError as error:
                if not self.made_for(path, error):
                    raise

    def _note_short(self, directory: str) -> None:
        self._short.add(directory)
        self.are_short = True

    def _directory_of(self, path: str) -> str | None:
        path = os.path.normpath(path)
        return next((each for each in self._reserves if path == each or path.startswith(f"{each}{os.sep}")), None)

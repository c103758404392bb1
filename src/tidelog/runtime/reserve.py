"""Room that is kept for what must be written when a disk is full: a file of it, given up piece by piece, and made whole when there is room.

Without it a full disk could not even be emptied: to forget records, to delete a topic and to stop cleanly, something has to be written.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

_FILE_MODE: Final = 0o600
_SHARE_MAX: Final = 16  # of a small file system not more than this part
_PIECES: Final = 8
_PIECE_BYTES_MIN: Final = 1 << 18


class Reserve:
    """A file of `size_bytes` at `path`. For processes that share it, too: whoever needs room takes a piece of it.

    Only a piece, so that nobody else on the same disk takes what was given up for room to speak of.
    """

    def __init__(self, path: str, size_bytes: int) -> None:
        self._path = path
        self._directory = os.path.dirname(os.path.abspath(path))
        self._size_bytes = size_bytes

    @property
    def has_room(self) -> bool:
        """Whether there is room beside it, so that room is not what is wanting."""
        usable_bytes, size_bytes = self._measures()
        return usable_bytes >= size_bytes

    def keep(self) -> bool:
        """Make the file whole; whether there is as much room beside it. Below that, it is left as it is: the disk is taken for full."""
        usable_bytes, size_bytes = self._measures()
        missing_bytes = size_bytes - self._kept_bytes()
        if usable_bytes - missing_bytes < size_bytes:
            return False
        if missing_bytes > 0:
            with contextlib.suppress(OSError):  # somebody else was faster, or the file system cannot
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
                try:
                    os.posix_fallocate(descriptor, 0, size_bytes)
                finally:
                    os.close(descriptor)
        return True

    def give_up(self) -> bool:
        """Cut a piece off; whether there was one."""
        kept_bytes = self._kept_bytes()
        if not kept_bytes:
            return False
        piece_bytes = max(_PIECE_BYTES_MIN, self._size_bytes // _PIECES)
        try:
            os.truncate(self._path, max(0, kept_bytes - piece_bytes))
        except OSError:
            return False
        return True

    def _measures(self) -> tuple[int, int]:
        """How much is free, and how much of such a disk is kept."""
        system = os.statvfs(self._directory)
        total_bytes = system.f_blocks * system.f_frsize
        return system.f_bavail * system.f_frsize, min(self._size_bytes, total_bytes // _SHARE_MAX)

    def _kept_bytes(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

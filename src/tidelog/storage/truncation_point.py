"""How far a log was cut back below what the directory's checkpoints promise.

The recovery point and the log start of all partitions share two files that are written now and then. Between a truncation and the next
writing they promise too much: a crash in that time would trust records that were never flushed. So a truncation below the promise first
leaves its offset here, durably, in the partition's own directory; on load the smaller one counts. The file goes once the promise is kept
again.
"""

from __future__ import annotations

from tidelog.model import Offset
from tidelog.runtime import Disk, FileMissing
from tidelog.storage.names import TRUNCATION_POINT
from tidelog.storage.values import Opening


class TruncationPoint:
    """The file of one log, and what must be reached again before it may go."""

    __slots__ = ("_disk", "_log_start", "_path", "_recovery_point", "is_set")

    def __init__(self, disk: Disk, directory: str, opening: Opening) -> None:
        self._disk = disk
        self._path = f"{directory}/{TRUNCATION_POINT}"
        self._recovery_point = opening.recovery_point
        self._log_start = opening.log_start_offset
        self.is_set = disk.exists(self._path)
        if opening.is_clean:
            # A clean shutdown wrote checkpoints that hold.
            self._recovery_point = self._log_start = 0
            self.maybe_remove(recovery_point=0, log_start_offset=0)

    def lower(self, offset: Offset, *, recovery_point: Offset, log_start_offset: Offset) -> None:
        """Before the log is cut back to `offset`: make sure that nobody believes more after a crash."""
        if offset >= recovery_point and offset >= log_start_offset:
            return
        lowest = min(offset, _read(self._disk, self._path, offset)) if self.is_set else offset
        _write(self._disk, self._path, lowest)
        self._recovery_point = max(self._recovery_point, recovery_point)
        self._log_start = max(self._log_start, log_start_offset)
        self.is_set = True

    def maybe_remove(self, *, recovery_point: Offset, log_start_offset: Offset) -> bool:
        """Remove the file if the log holds again what the checkpoints promise."""
        if not self.is_set or recovery_point < self._recovery_point or log_start_offset < self._log_start:
            return False
        self.is_set = False
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)
        return True


def read_truncation_point(disk: Disk, directory: str) -> Offset | None:
    """The smallest offset a log was cut back to since its checkpoints were last true; None without one."""
    path = f"{directory}/{TRUNCATION_POINT}"
    return _read(disk, path, 0) if disk.exists(path) else None


def write_truncation_point(disk: Disk, directory: str, offset: Offset) -> None:
    """Say of a log that is not open that nothing from `offset` on is promised."""
    _write(disk, f"{directory}/{TRUNCATION_POINT}", offset)


def _write(disk: Disk, path: str, offset: Offset) -> None:
    disk.replace(path, f"{offset}\n".encode())


def _read(disk: Disk, path: str, fallback: Offset) -> Offset:
    try:
        text = disk.read(path).strip()
    except FileMissing:
        return fallback
    return int(text) if text.isdigit() else 0

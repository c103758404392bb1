"""A flush as a piece of work: made on the loop, performed in the thread of the log directory, reported back on the loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model import Offset
from tidelog.runtime import Disk, DiskFull, File, StorageFailure
from tidelog.storage.segment import Segment
from tidelog.storage.values import DirectoryHealth


@dataclass(slots=True, kw_only=True)
class Flush:
    """Everything that must reach the disk before the records below `end_offset` count as durable.

    It holds open files rather than segments, so the log may append, roll and delete while the thread works; the log closes no file that an
    outstanding flush holds.
    """

    disk: Disk
    health: DirectoryHealth
    end_offset: Offset
    files: list[File]
    directories: list[str]
    """Directories whose names changed, innermost first."""
    documents: list[tuple[str, bytes]]
    """Small files to be replaced: the leader epochs."""
    sealed: list[Segment] = field(default_factory=list)
    """The sealed segments among it, for the log to tick off."""
    close_after: list[File] = field(default_factory=list)
    """Files that only the flush holds: producer snapshots."""
    is_performed: bool = False
    is_cancelled: bool = False
    """Set on the loop when the log is deleted: what fails from then on is no sign of a bad disk."""

    def perform(self) -> None:
        """Do it, in the order of the log, so that a crash leaves a prefix durable. A failure takes the directory offline for ever.

        No space for the small files is no failure: the flush is not performed, and the log will want another.
        """
        try:
            self._perform()
        except StorageFailure as failure:
            if self.is_cancelled:
                return
            self.health.fail(failure)
            raise

    def _perform(self) -> None:
        for file in self.files:
            if self.is_cancelled:
                return
            self.health.check(file.path)
            file.fsync()
        for directory in self.directories:
            self.disk.fsync_dir(directory)
        try:
            for path, content in self.documents:
                if self.is_cancelled:
                    return  # Another log may have the name by now.
                self.disk.replace(path, content)
        except DiskFull:
            return
        self.is_performed = True

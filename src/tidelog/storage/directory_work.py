"""What a log directory has done in its threads: checkpoints written, and files removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Disk, DiskFull, FileMissing, StorageFailure
from tidelog.storage.checkpoints import encode_offsets
from tidelog.storage.names import DELETED_DIRECTORY
from tidelog.storage.values import DirectoryHealth


class Promise(NamedTuple):
    """What the checkpoint files say of a log."""

    recovery_point: Offset
    log_start_offset: Offset


@dataclass(slots=True, kw_only=True)
class CheckpointWriting:
    """Checkpoint files to be put into words and replaced in the directory's thread. No space leaves the old ones, which are only older."""

    disk: Disk
    health: DirectoryHealth
    documents: Mapping[str, Mapping[TopicPartition, Offset]]
    outdated: Mapping[TopicPartition, Promise] = field(default_factory=dict)
    """What earlier files say of logs that are gone, and these no longer."""
    previous: CheckpointWriting | None = None
    """The writing before this one: where it said the same, the file is left alone. Let go of once this one is performed."""
    is_performed: bool = False

    def perform(self) -> None:
        """Do it; a failure takes the directory offline."""
        try:
            written = self.previous.documents if self.previous is not None and self.previous.is_performed else {}
            for path, offsets in self.documents.items():
                self.health.check(path)
                if written.get(path) != offsets:
                    self.disk.replace(path, encode_offsets(offsets))
            self.is_performed = True
            self.previous = None
        except DiskFull:
            return
        except StorageFailure as failure:
            self.health.fail(failure)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files and directories to be removed in the directory's thread."""

    disk: Disk
    health: DirectoryHealth
    paths: tuple[str, ...]

    def perform(self) -> None:
        """Do it; what is gone already is fine. A failure takes the directory offline."""
        try:
            for path in self.paths:
                self._remove(path)
        except StorageFailure as failure:
            self.health.fail(failure)
            raise

    def _remove(self, path: str) -> None:
        try:
            if path.endswith(DELETED_DIRECTORY):
                self.disk.rmtree(path)
            else:
                self.disk.unlink(path)
        except FileMissing:
            return

"""What of a log is on the disk, what waits for it, and which flushes are under way.

Two offsets differ for a reason: batches below `flushed_end_offset` are durable, but the recovery point, from which a crash makes us read
again, stays below any sealed segment whose indexes are not.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model import Offset, TimestampMs
from tidelog.runtime import Disk, File
from tidelog.storage.checkpoints import encode_epochs
from tidelog.storage.epoch_cache import LeaderEpochCache
from tidelog.storage.flush import Flush
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.segment import Segment
from tidelog.storage.values import DirectoryHealth


class Durability:
    """The bookkeeping of one log's flushes."""

    __slots__ = (
        "_directory",
        "_disk",
        "_flushed",
        "_health",
        "_oldest_unflushed_ms",
        "_outstanding",
        "_to_close",
        "are_epochs_unflushed",
        "are_names_unflushed",
        "flush_messages",
        "flushed_end_offset",
        "is_directory_unflushed",
        "is_wanted",
        "recovery_point",
        "sealed",
        "settled_end_offset",
        "small_files",
    )

    def __init__(self, disk: Disk, directory: str, health: DirectoryHealth, *, flush_messages: int | None) -> None:
        self._disk = disk
        self._directory = directory
        self._health = health
        self.flush_messages = flush_messages
        self.flushed_end_offset: Offset = 0
        self.recovery_point: Offset = 0
        self.settled_end_offset: Offset = 0
        self.is_wanted = False
        """Whether something waits for a flush that is not under way."""
        self.sealed: list[Segment] = []
        """Sealed segments not yet durable with their indexes, oldest first."""
        self.small_files: list[File] = []
        """Producer snapshots and partition metadata, open only until they are flushed."""
        self.are_epochs_unflushed = False
        self.are_names_unflushed = False
        self.is_directory_unflushed = False
        self._oldest_unflushed_ms: TimestampMs | None = None
        self._outstanding: list[Flush] = []
        self._flushed: list[Segment] = []
        self._to_close: list[Segment] = []

    def restart(self, log_end_offset: Offset, recovery_point: Offset) -> None:
        """The log is as it was found, or empty. What a crash left unflushed must wait for a flush like anything new."""
        self._cap_outstanding(recovery_point)
        self.flushed_end_offset = self.recovery_point = self.settled_end_offset = recovery_point
        self.settle(log_end_offset)

    def advance(self, log_end_offset: Offset, now_ms: TimestampMs) -> None:
        """Batches were written up to `log_end_offset`; with flush.messages they may have to wait."""
        if self._oldest_unflushed_ms is None:
            self._oldest_unflushed_ms = now_ms
        if self.flush_messages is None or log_end_offset - self.flushed_end_offset < self.flush_messages:
            self.settled_end_offset = log_end_offset
        else:
            self.is_wanted = True

    def lower(self, log_end_offset: Offset, segments: list[Segment]) -> None:
        """The log was cut back; what takes the place of the records that are gone is not covered by any flush under way."""
        self._cap_outstanding(log_end_offset)
        self.sealed = [segment for segment in self.sealed if segment in segments[:-1]]
        self.flushed_end_offset = min(self.flushed_end_offset, log_end_offset)
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.settled_end_offset = min(self.settled_end_offset, log_end_offset)

    def make_directory_durable(self) -> None:
        """Have the directory's own name on the disk now: where an empty log begins must not be forgotten with it."""
        if self.is_directory_unflushed:
            self._disk.fsync_dir(self._parent)
            self.is_directory_unflushed = False

    def is_due(self, now_ms: TimestampMs, flush_ms: int | None) -> bool:
        """Whether the oldest batch that no flush covers is older than `flush_ms`."""
        oldest = self._oldest_unflushed_ms
        return oldest is not None and flush_ms is not None and now_ms - oldest >= flush_ms

    def start(self, active: Segment, log_end_offset: Offset, epochs: LeaderEpochCache) -> Flush | None:
        """Collect everything that is not durable, in the order of the log; None if there is nothing."""
        sealed = list(self.sealed)
        files = [file for segment in sealed for file in segment.files.hold_all()] + self.small_files
        if self.flushed_end_offset < log_end_offset and active not in sealed:
            files.append(active.file)
        directories = [self._directory] if self.are_names_unflushed or sealed else []
        if self.is_directory_unflushed:
            directories.append(self._parent)
        documents = []
        if self.are_epochs_unflushed:
            documents.append((f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}", encode_epochs(epochs.entries)))
        self.is_wanted = False
        if not (files or directories or documents):
            return None
        flush = Flush(
            disk=self._disk,
            health=self._health,
            end_offset=log_end_offset,
            files=files,
            directories=directories,
            documents=documents,
            sealed=sealed,
            close_after=self.small_files,
        )
        self.small_files = []
        self.are_epochs_unflushed = self.are_names_unflushed = self.is_directory_unflushed = False
        self._oldest_unflushed_ms = None
        self._outstanding.append(flush)
        return flush

    def on_flushed(self, flush: Flush, log_end_offset: Offset) -> None:
        """The thread is done with `flush`."""
        self._outstanding.remove(flush)
        for file in flush.close_after:
            file.close()
        self._close_waiting()
        self._flushed.extend(flush.sealed)
        if not flush.is_performed:
            self.are_epochs_unflushed = self.is_wanted = True
            return
        self.sealed = [segment for segment in self.sealed if segment not in flush.sealed]
        self.flushed_end_offset = max(self.flushed_end_offset, min(flush.end_offset, log_end_offset))
        self.recovery_point = self.flushed_end_offset
        if self.sealed:
            self.recovery_point = min(self.recovery_point, self.sealed[0].base_offset)
        self.settle(log_end_offset)

    def settle(self, log_end_offset: Offset) -> None:
        """See what may be acknowledged now."""
        if self.flush_messages is None or log_end_offset - self.flushed_end_offset < self.flush_messages:
            self.settled_end_offset = log_end_offset
        else:
            self.settled_end_offset = max(self.settled_end_offset, self.flushed_end_offset)
            self.is_wanted = True

    def reconfigure(self, flush_messages: int | None, log_end_offset: Offset) -> None:
        """New settings hold for all that is not flushed, also for what a crash has left before they were known."""
        if flush_messages != self.flush_messages:
            self.flush_messages = flush_messages
            self.settled_end_offset = self.flushed_end_offset
        self.settle(log_end_offset)

    @property
    def is_flushing(self) -> bool:
        """Whether the thread holds files of the log."""
        return bool(self._outstanding)

    def take_flushed(self) -> list[Segment]:
        """The sealed segments whose files a flush has held and holds no more."""
        flushed, self._flushed = self._flushed, []
        return flushed

    def let_go(self, segments: Iterable[Segment]) -> None:
        """Close segments' files, as soon as no flush holds them."""
        self._to_close.extend(segments)
        self.sealed = [segment for segment in self.sealed if segment not in self._to_close]
        self._close_waiting()

    def cancel(self) -> None:
        """The log goes: outstanding flushes mean nothing any more, and may fail."""
        for flush in self._outstanding:
            flush.is_cancelled = True

    @property
    def _parent(self) -> str:
        return self._directory.rpartition("/")[0] or "."

    def _cap_outstanding(self, end_offset: Offset) -> None:
        for flush in self._outstanding:
            flush.end_offset = min(flush.end_offset, end_offset)

    def _close_waiting(self) -> None:
        if self._outstanding:
            return
        for segment in self._to_close:
            segment.files.close()
        self._to_close.clear()

"""One log directory: whose it is, which logs lie in it, and the checkpoints they share.

A directory fails as a whole: the first StorageFailure of any of its logs takes it offline for good, and the others go on (D14).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from tidelog.config import LogConfig
from tidelog.model import BrokerId, Offset, TimestampMs, TopicId, TopicPartition, invariant
from tidelog.runtime import Disk, DiskFull, FileMissing, StorageFailure
from tidelog.runtime.disk import DiskLock
from tidelog.storage.checkpoints import (
    DamagedCheckpoint,
    MetaProperties,
    decode_clean_shutdown,
    decode_meta_properties,
    decode_offsets,
    encode_clean_shutdown,
    encode_meta_properties,
    encode_offsets,
)
from tidelog.storage.directory_work import CheckpointWriting, Promise, Removal
from tidelog.storage.flush import Flush
from tidelog.storage.log import PartitionLog
from tidelog.storage.metadata_file import read_topic_id
from tidelog.storage.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    DELETED_DIRECTORY,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    STRAY_DIRECTORY,
    parse_partition_directory,
)
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.truncation_point import read_truncation_point, write_truncation_point
from tidelog.storage.values import DirectoryHealth, Opening, Retired

_NAME_BYTES_MAX: Final = 255


class WrongDirectory(Exception):
    """The directory is another broker's or another cluster's, or another process works in it: starting would destroy something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A log that lies in the directory."""

    topic_partition: TopicPartition
    topic_id: TopicId | None


class LogDirectory:
    """The logs under one path, and their lock. Create it with `open`."""

    def __init__(self, disk: Disk, path: str, lock: DiskLock) -> None:
        self._disk = disk
        self._lock = lock
        self.path: Final = path
        self.health: Final = DirectoryHealth()
        self._files = OpenFiles(disk)
        self.is_clean = False
        """Whether the last shutdown was clean, so that logs need no recovery."""
        self.last_broker_epoch = -1
        """The broker epoch that a clean shutdown ended (KIP-966), -1 if unknown."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As checkpointed; the partitions own the living ones."""
        self.cleaner_offsets: dict[TopicPartition, Offset] = {}
        """First offset that compaction has not cleaned; written with the other checkpoints."""
        self._recovery_points: dict[TopicPartition, Offset] = {}
        self._log_starts: dict[TopicPartition, Offset] = {}
        self._retired: list[Retired] = []
        # What the checkpoint files may still say of logs that are gone; a namesake must not be taken by their word.
        self._outdated: dict[TopicPartition, Promise] = {}
        self._last_writing: CheckpointWriting | None = None

    @classmethod
    def open(cls, disk: Disk, path: str, *, broker_id: BrokerId, cluster_id: str) -> LogDirectory:
        """Take the directory into use. Raises WrongDirectory, StorageFailure.

        The clean-shutdown marker is removed before anything is loaded: a crash while loading counts as unclean (KAFKA-10471).
        """
        disk.mkdir(path)
        lock = disk.lock(f"{path}/{LOCK}")
        if lock is None:
            raise WrongDirectory(f"another process has locked {path}")
        try:
            _check_owner(disk, path, MetaProperties(broker_id=broker_id, cluster_id=cluster_id))
            directory = cls(disk, path, lock)
            directory._load()
        except (WrongDirectory, StorageFailure):
            lock.release()
            raise
        return directory

    @property
    def failure(self) -> StorageFailure | None:
        """Why the directory is offline; None while it works."""
        return self.health.failure

    @property
    def is_cut_short(self) -> bool:
        """Whether a log that was opened has lost records that no killed process would have taken along."""
        return any(log.was_cut_short for log in self.logs.values())

    def found(self) -> list[FoundPartition]:
        """The logs on disk, sorted, whether opened yet or not."""
        partitions = []
        for name in self._disk.listdir(self.path):
            partition = parse_partition_directory(name)
            if partition is not None and self._disk.is_dir(f"{self.path}/{name}"):
                topic_id = read_topic_id(self._disk, f"{self.path}/{name}")
                partitions.append(FoundPartition(topic_partition=partition, topic_id=topic_id))
        return sorted(partitions, key=lambda found: found.topic_partition)

    def open_log(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: TimestampMs,
        topic_id: TopicId | None = None,
    ) -> PartitionLog:
        """Open a log that was found, or begin one. Raises InconsistentTopicId, StorageFailure."""
        self.health.check(self.path)
        invariant(topic_partition not in self.logs, "a log is opened once")
        directory = f"{self.path}/{topic_partition}"
        opening = Opening(
            recovery_point=self._recovery_points.get(topic_partition, 0),
            log_start_offset=self._log_starts.get(topic_partition, 0),
            is_clean=self.is_clean,
            topic_id=topic_id,
            health=self.health,
            files=self._files,
        )
        outdated = self._outdated.get(topic_partition)
        if outdated is not None:
            self._renounce(directory)
            opening = replace(opening, **outdated._asdict(), is_clean=False)
        if not opening.is_clean:
            self._lower_high_watermark(topic_partition, read_truncation_point(self._disk, directory))
        log = PartitionLog.open(self._disk, directory, topic_partition, config, now_ms=now_ms, opening=opening)
        self.logs[topic_partition] = log
        return log

    def _renounce(self, directory: str) -> None:
        """Before a log takes the name of another: what the checkpoint files say of that one is not said of this one."""
        try:
            self._disk.mkdir(directory)
            write_truncation_point(self._disk, directory, 0)
        except DiskFull:
            raise
        except StorageFailure as failure:
            self.health.fail(failure)
            raise

    def _lower_high_watermark(self, topic_partition: TopicPartition, truncated_to: Offset | None) -> None:
        """A watermark from before a truncation says nothing of what was written after it."""
        if truncated_to is not None and topic_partition in self.high_watermarks:
            self.high_watermarks[topic_partition] = min(self.high_watermarks[topic_partition], truncated_to)

    def delete_log(self, topic_partition: TopicPartition, *, unique: UUID) -> None:
        """Take a log out of service: its directory gets a name of its own at once, and is removed with the next `take_removal`."""
        self._retired.append(Retired(self._rename_away(topic_partition, f".{unique.hex}{DELETED_DIRECTORY}"), 0))

    def set_aside_log(self, topic_partition: TopicPartition, *, unique: UUID) -> str:
        """Take a log out of service but keep its files, for an operator to judge; where they are now."""
        return self._rename_away(topic_partition, f".{unique.hex}{STRAY_DIRECTORY}")

    def _rename_away(self, topic_partition: TopicPartition, ending: str) -> str:
        log = self.logs.pop(topic_partition)
        log.abandon()
        log.forget_damage()
        known = self._outdated.get(topic_partition, Promise(0, 0))
        self._outdated[topic_partition] = Promise(
            max(known.recovery_point, self._recovery_points.pop(topic_partition, 0)),
            max(known.log_start_offset, self._log_starts.pop(topic_partition, 0)),
        )
        for offsets in (self.high_watermarks, self.cleaner_offsets):
            offsets.pop(topic_partition, None)
        target = f"{self.path}/{str(topic_partition)[: _NAME_BYTES_MAX - len(ending)]}{ending}"
        try:
            self._disk.rename(log.directory, target)
        except StorageFailure as failure:
            self.health.fail(failure)
            raise
        return target

    def take_removal(self, now_ms: TimestampMs) -> Removal | None:
        """The removal of everything whose time has come, for the directory's thread; None if there is nothing."""
        for log in self.logs.values():
            self._retired.extend(log.take_retired())
        due = [retired for retired in self._retired if retired.not_before_ms <= now_ms]
        if not due or self.failure is not None:
            return None
        self._retired = [retired for retired in self._retired if retired.not_before_ms > now_ms]
        return Removal(disk=self._disk, health=self.health, paths=tuple(retired.path for retired in due))

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, Offset]) -> CheckpointWriting:
        """The writing of all checkpoints as of now, for the directory's thread."""
        for partition, log in self.logs.items():
            self._recovery_points[partition] = log.recovery_point
            self._log_starts[partition] = log.log_start_offset
        self.high_watermarks.update((key, value) for key, value in high_watermarks.items() if key in self.logs)
        documents = {
            RECOVERY_POINT_CHECKPOINT: self._recovery_points,
            LOG_START_CHECKPOINT: self._log_starts,
            HIGH_WATERMARK_CHECKPOINT: self.high_watermarks,
            CLEANER_CHECKPOINT: self.cleaner_offsets,
        }
        self._forget_outdated()
        self._last_writing = CheckpointWriting(
            disk=self._disk,
            health=self.health,
            documents={f"{self.path}/{name}": dict(offsets) for name, offsets in documents.items()},
            outdated=dict(self._outdated),
            previous=self._last_writing,
        )
        return self._last_writing

    def _forget_outdated(self) -> None:
        """What the files no longer say since the last writing needs no more care."""
        if self._last_writing is None or not self._last_writing.is_performed:
            return
        for topic_partition, promise in self._last_writing.outdated.items():
            if self._outdated.get(topic_partition) is promise:
                del self._outdated[topic_partition]

    def close_cleanly(self, high_watermarks: Mapping[TopicPartition, Offset], *, broker_epoch: int = -1) -> None:
        """Close everything, one after the other; `start_closing` and `finish_closing` let the flushes in between run side by side."""
        flushes = self.start_closing()
        try:
            for flush in flushes.values():
                flush.perform()
        except StorageFailure:
            self.release()
            raise
        self.finish_closing(flushes, high_watermarks, broker_epoch=broker_epoch)

    def start_closing(self) -> dict[TopicPartition, Flush]:
        """Have every log write what a clean end needs; the flushes that must be performed before `finish_closing`."""
        try:
            self.health.check(self.path)
            closing = {partition: log.start_closing() for partition, log in self.logs.items()}
        except StorageFailure:
            self.release()
            raise
        return {partition: flush for partition, flush in closing.items() if flush is not None}

    def finish_closing(
        self,
        flushes: Mapping[TopicPartition, Flush],
        high_watermarks: Mapping[TopicPartition, Offset],
        *,
        broker_epoch: int = -1,
    ) -> None:
        """Close every log, write the checkpoints and, only if all that went well, the marker that lets the next start trust them."""
        try:
            self.health.check(self.path)
            for partition, log in self.logs.items():
                log.finish_closing(flushes.get(partition))
            for path, offsets in self.checkpoint(high_watermarks).documents.items():
                self._disk.replace(path, encode_offsets(offsets))
            self._disk.replace(f"{self.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(broker_epoch))
        except DiskFull:
            raise
        except StorageFailure as failure:
            self.health.fail(failure)
            raise
        finally:
            self.release()

    def release(self) -> None:
        """Let go of files and lock without a word on disk: the next start will recover."""
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        self._lock.release()

    def _load(self) -> None:
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        if self._disk.exists(marker):
            self.last_broker_epoch = decode_clean_shutdown(self._disk.read(marker))
            self._disk.unlink(marker)
            self._disk.fsync_dir(self.path)
            self.is_clean = True
        self._recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        self._log_starts = self._read_offsets(LOG_START_CHECKPOINT)
        self.high_watermarks = self._read_offsets(HIGH_WATERMARK_CHECKPOINT)
        self.cleaner_offsets = self._read_offsets(CLEANER_CHECKPOINT)
        for name in self._disk.listdir(self.path):
            if name.endswith(DELETED_DIRECTORY) and self._disk.is_dir(f"{self.path}/{name}"):
                self._retired.append(Retired(f"{self.path}/{name}", 0))

    def _read_offsets(self, name: str) -> dict[TopicPartition, Offset]:
        """A damaged or missing file counts as empty: recovery from the beginning, log start at the first segment, watermark to be learned."""
        try:
            return decode_offsets(self._disk.read(f"{self.path}/{name}"))
        except (FileMissing, DamagedCheckpoint):
            return {}


def _make_durable(disk: Disk, path: str) -> None:
    """Flush the names that lead to a directory on its first use, also those that a killed process made; one above that we may not read
    was there before us.
    """
    while path not in ("", "/"):
        path = path.rpartition("/")[0] or ("/" if path.startswith("/") else "")
        try:
            disk.fsync_dir(path or ".")
        except StorageFailure:
            return


def _check_owner(disk: Disk, path: str, expected: MetaProperties) -> None:
    """Write `meta.properties` on first use; later it must name this broker and cluster."""
    meta_path = f"{path}/{META_PROPERTIES}"
    try:
        found = decode_meta_properties(disk.read(meta_path))
    except FileMissing:
        _make_durable(disk, path)
        disk.replace(meta_path, encode_meta_properties(expected))
        return
    except DamagedCheckpoint as error:
        raise WrongDirectory(f"{meta_path} is damaged: {error}") from error
    for word, mine, theirs in (
        ("broker id", expected.broker_id, found.broker_id),
        ("cluster id", expected.cluster_id, found.cluster_id),
    ):
        if theirs is not None and theirs != mine:
            raise WrongDirectory(f"{meta_path} has {word} {theirs}, this is {mine}")

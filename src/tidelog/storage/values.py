"""What goes into a log and comes out of it, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition
from tidelog.runtime import StorageFailure
from tidelog.storage.open_files import OpenFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What the log directory knows of a log before it is opened."""

    recovery_point: Offset = 0
    log_start_offset: Offset = 0
    is_clean: bool = False
    topic_id: TopicId | None = None
    health: DirectoryHealth = field(default_factory=lambda: DirectoryHealth())
    """Shared by all logs of the directory."""
    files: OpenFiles | None = None
    """Shared likewise; a log that is given none has its own."""


class Appended(NamedTuple):
    """The answer to an append."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: TimestampMs = NO_TIMESTAMP
    """The time the broker gave the records, where the topic asks for LogAppendTime."""
    is_duplicate: bool = False
    """Whether the batch was there already: the offsets are those of the first time, and nothing was written."""
    flush_wanted: bool = False
    """Whether the owner should have `start_flush()` performed soon."""


class TimestampedOffset(NamedTuple):
    """A record found by its time."""

    offset: Offset
    timestamp_ms: TimestampMs
    leader_epoch: LeaderEpoch


class Retired(NamedTuple):
    """A file that belongs to no log any more, to be unlinked in the directory's thread once its time has come."""

    path: str
    not_before_ms: TimestampMs


@dataclass(slots=True)
class DirectoryHealth:
    """Whether a log directory still works; its logs share one. The first failure is for ever, as a failed fsync cannot be taken back."""

    failure: StorageFailure | None = None
    damaged: dict[TopicPartition, Offset] = field(default_factory=dict)
    """Logs in which rot was met, and from which offset on each is to be replaced by its leader's."""

    def note_damage(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Rot at this offset, or before it."""
        self.damaged[topic_partition] = min(offset, self.damaged.get(topic_partition, offset))

    def fail(self, failure: StorageFailure) -> None:
        """Take the directory offline."""
        if self.failure is None:
            self.failure = failure

    def check(self, path: str) -> None:
        """Refuse to touch a directory that is offline."""
        if self.failure is not None:
            raise StorageFailure("use", path, f"the log directory is offline: {self.failure}")

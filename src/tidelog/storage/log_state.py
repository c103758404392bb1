"""What a log is made of: its segments, epochs and producers, what of it is durable, and the guards around its files.

The layers above add what can be done with it: `log_reading` reads, `log_shaping` rolls, deletes and cuts, `log_appending` appends, and
`log` opens and closes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidelog.config import LogConfig
from tidelog.model import ApiError, ErrorCode, LeaderEpoch, Offset, TimestampMs, TopicPartition
from tidelog.records.batch import CorruptBatch
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.storage.checkpoints import EpochStart
from tidelog.storage.durability import Durability
from tidelog.storage.flush import Flush
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.producer_state import ProducerStates
from tidelog.storage.recovery import LoadedLog
from tidelog.storage.retention import roll_after_ms
from tidelog.storage.segment import Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.truncation_point import TruncationPoint
from tidelog.storage.values import Opening, Retired
from tidelog.storage.verification import Verification


class LogState:
    """The ground floor of a log: what it is and what of it is on the disk."""

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        opening: Opening,
        loaded: LoadedLog,
    ) -> None:
        self._disk = disk = files.disk
        self.directory: Final = directory
        self.topic_partition: Final = topic_partition
        self.topic_id = opening.topic_id
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.was_cut_short = loaded.is_cut_short
        """Whether opening it ended the log where something did not fit that no killed process leaves behind."""
        self._unchecked_from = loaded.log_end_offset
        self._are_gaps_known = config.is_compacted  # Compaction leaves gaps; nothing else should.
        self.cut_count = 0
        """How often records were cut away: a different number means that what was read before need not be the log's any more."""
        self._health = opening.health
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self.verification: Final = Verification()  # Of producers who begin a transaction while the log is led here.
        self._truncation_point = TruncationPoint(disk, directory, opening)
        self._roll_after_ms = roll_after_ms(config, topic_partition)
        # Where the log ends if it is as a clean shutdown left it, with its indexes and its snapshot.
        self._untouched_end_offset = loaded.log_end_offset if loaded.is_as_closed else None
        self._durability = durability = Durability(
            disk, directory, opening.health, flush_messages=config.flush_messages
        )
        self._segments = SegmentList(files, directory, loaded.segments, durability, config)
        durability.sealed = loaded.unflushed_sealed
        durability.are_epochs_unflushed = loaded.are_epochs_changed
        durability.are_names_unflushed = durability.is_directory_unflushed = loaded.are_names_changed
        durability.is_wanted = bool(loaded.unflushed_sealed)
        durability.restart(loaded.log_end_offset, loaded.recovery_point)

    # What is in the log.

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return sum(segment.size for segment in self._segments.all)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments in order; the last one is active."""
        return self._segments.all

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Which leader epoch began at which offset, oldest first."""
        return self._epochs.entries

    @property
    def latest_leader_epoch(self) -> LeaderEpoch:
        """The newest epoch the log knows, -1 if none."""
        return self._epochs.latest

    @property
    def producers(self) -> ProducerStates:
        """What the log knows of its producers, to be read only."""
        return self._producers

    @property
    def damaged_from(self) -> Offset | None:
        """Where rot was met in this log; None while none is known."""
        return self._health.damaged.get(self.topic_partition)

    def note_damage(self, offset: Offset) -> None:
        """Somebody has met rot at this offset, or before it."""
        self._health.note_damage(self.topic_partition, offset)

    def on_examined(self) -> None:
        """All of the log was read, and nothing is rotten: where offsets are missing, compaction has once taken them."""
        self._are_gaps_known = True
        self.forget_damage()

    def forget_damage(self) -> None:
        """What was rotten is gone."""
        self._health.damaged.pop(self.topic_partition, None)

    @property
    def is_offline(self) -> bool:
        """Whether the log's directory has failed."""
        return self._health.failure is not None

    # What of it is durable.

    @property
    def recovery_point(self) -> Offset:
        """Below it the log is durable with all that belongs to it; after a crash it is read again from here."""
        return self._durability.recovery_point

    @property
    def settled_end_offset(self) -> Offset:
        """End of what may be acknowledged: the log end, but it stands still while a flush that flush.messages asks for is outstanding."""
        return self._durability.settled_end_offset

    @property
    def is_flush_wanted(self) -> bool:
        """Whether something waits for a flush that is not under way: acknowledgements, a sealed segment, leader epochs."""
        return self._durability.is_wanted

    def is_flush_due(self, now_ms: TimestampMs) -> bool:
        """Whether flush.ms has passed since the oldest batch that no flush covers."""
        return self._durability.is_due(now_ms, self.config.flush_ms)

    def start_flush(self) -> Flush | None:
        """The work that makes everything up to the log end durable, for the directory's threads; None if nothing is to be done.

        Raises DiskFull (the log still wants the flush), StorageFailure.
        """
        with self._changing():
            return self._durability.start(self._segments.active, self.log_end_offset, self._epochs)

    def on_flushed(self, flush: Flush) -> None:
        """Back on the loop after `flush.perform()`: the recovery point and what may be acknowledged move."""
        self._durability.on_flushed(flush, self.log_end_offset)
        self._segments.rest_flushed()
        if self._truncation_point.is_set and not flush.is_cancelled:
            self._truncation_point.maybe_remove(
                recovery_point=self.recovery_point, log_start_offset=self.log_start_offset
            )

    def take_retired(self) -> list[Retired]:
        """Files to be unlinked in the directory's threads, each not before its time; they are the caller's from now on."""
        return self._segments.take_retired()

    # Guards.

    @contextmanager
    def _reading(self, offset: Offset) -> Iterator[None]:
        """What goes wrong while reading up to an offset: rot is the reader's to hear of, a failing disk takes the directory offline."""
        self._health.check(self.directory)
        try:
            yield
        except CorruptBatch as error:
            self.note_damage(offset)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except StorageFailure as failure:
            self._health.fail(failure)
            raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What goes wrong while files change: a full disk may pass, anything else takes the directory offline."""
        self._health.check(self.directory)
        try:
            yield
        except DiskFull:
            raise
        except StorageFailure as failure:
            self._health.fail(failure)
            raise

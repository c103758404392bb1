"""The log of one partition: appends at its end, reads anywhere, and what keeps it in shape.

Synchronous and told the time. Appends and reads touch the page cache only; what must reach the disk leaves as a `Flush` and what may be
removed as `Retired`, both for the thread of the log directory. The high watermark is not ours: callers pass it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidelog.config import LogConfig
from tidelog.model import (
    NO_TIMESTAMP,
    ApiError,
    ErrorCode,
    LeaderEpoch,
    Offset,
    TimestampMs,
    TopicId,
    TopicPartition,
    invariant,
)
from tidelog.records.batch import (
    APPEND_TIME_BIT,
    LENGTH_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    read_header,
    stamp,
)
from tidelog.records.control import Marker
from tidelog.runtime import Disk, DiskFull, StorageFailure
from tidelog.runtime.disk import Buffer
from tidelog.storage.durability import Durability
from tidelog.storage.epoch_cache import EpochEndOffset
from tidelog.storage.floors import lower_floors
from tidelog.storage.flush import Flush
from tidelog.storage.lookup import find_by_timestamp, find_max_timestamp
from tidelog.storage.metadata_file import keep_topic_id
from tidelog.storage.producer_state import CachedBatch, Origin, ProducerState, ProducerStates
from tidelog.storage.recovery import LoadedLog, load_log
from tidelog.storage.replicated import check_replicated
from tidelog.storage.retention import count_deletable, roll_after_ms
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.snapshots import marker_of, producers_at
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.truncation_point import TruncationPoint
from tidelog.storage.values import Appended, Opening, Retired, TimestampedOffset


class PartitionLog:
    """One log. Create it with `open`; a method that raises StorageFailure (other than DiskFull) has taken its directory offline."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        opening: Opening,
        loaded: LoadedLog,
    ) -> None:
        self._disk = disk
        self.directory: Final = directory
        self.topic_partition: Final = topic_partition
        self.topic_id = opening.topic_id
        self.config = config
        self._health = opening.health
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._truncation_point = TruncationPoint(disk, directory, opening)
        self._roll_after_ms = roll_after_ms(config, topic_partition)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.cut_count = 0
        """How often records were cut away: a different number means that what was read before need not be the log's any more."""
        # Where the log ends if it is as a clean shutdown left it, with its indexes and its snapshot.
        self._untouched_end_offset = loaded.log_end_offset if loaded.is_as_closed else None
        self._durability = durability = Durability(
            disk, directory, opening.health, flush_messages=config.flush_messages
        )
        self._segments = SegmentList(disk, directory, loaded.segments, durability, config)
        durability.sealed = loaded.unflushed_sealed
        durability.are_epochs_unflushed = loaded.are_epochs_changed
        durability.are_names_unflushed = durability.is_directory_unflushed = loaded.are_names_changed
        durability.is_wanted = bool(loaded.unflushed_sealed)
        durability.restart(loaded.log_end_offset, loaded.recovery_point)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: TimestampMs,
        opening: Opening,
    ) -> PartitionLog:
        """Load the log in `directory`, recovering it unless its shutdown was clean; begin an empty one where none is."""
        try:
            disk.mkdir(directory)
            metadata = None if opening.topic_id is None else keep_topic_id(disk, directory, opening.topic_id)
            loaded = load_log(disk, directory, config, opening, now_ms)
        except StorageFailure as failure:
            if not isinstance(failure, DiskFull):
                opening.health.fail(failure)
            raise
        log = cls(disk, directory, topic_partition, config, opening, loaded)
        if metadata is not None:
            log._durability.small_files.append(metadata)
        return log

    # What is in the log.

    @property
    def recovery_point(self) -> Offset:
        """Below it the log is durable with all that belongs to it; after a crash it is read again from here."""
        return self._durability.recovery_point

    @property
    def settled_end_offset(self) -> Offset:
        """End of what may be acknowledged: the log end, but it stands still while a flush that flush.messages asks for is outstanding."""
        return self._durability.settled_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return sum(segment.size for segment in self._segments.all)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments in order; the last one is active."""
        return self._segments.all

    @property
    def latest_leader_epoch(self) -> LeaderEpoch:
        """The newest epoch the log knows, -1 if none."""
        return self._epochs.latest

    @property
    def producers(self) -> ProducerStates:
        """What the log knows of its producers, to be read only."""
        return self._producers

    @property
    def is_offline(self) -> bool:
        """Whether the log's directory has failed."""
        return self._health.failure is not None

    # Appending.

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """Give a validated batch the next offsets, in place, and write it; a retry of a known batch gets the old offsets and writes nothing.

        Raises ApiError where the producer's state says no, DiskFull (the log is as before), StorageFailure.
        """
        header = read_header(batch)
        invariant(header.length + LENGTH_OVERHEAD == len(batch), "a leader appends one whole batch")
        marker: Marker | None = None
        if header.producer_id >= 0:
            marker = marker_of(header, batch)
            duplicate = self._producers.check(header, marker, origin)
            if duplicate is not None:
                return self._answer_duplicate(duplicate)
        size = len(batch)
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self.config.segment_bytes}"
            )
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp(batch, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        header = header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        if self._must_roll(header, self._segments.active.size, now_ms):
            self._roll_before(header, now_ms)
        self._write((batch,))
        if leader_epoch != self._epochs.latest:
            self._note_epoch(leader_epoch, base_offset)
        self._note(header, marker)
        self.log_end_offset = last_offset + 1
        self._durability.advance(last_offset + 1, now_ms)
        append_time = header.max_timestamp if header.attributes & APPEND_TIME_BIT else NO_TIMESTAMP
        return Appended(base_offset, last_offset, append_time, False, self._durability.is_wanted)

    def append_as_follower(self, data: Buffer, *, now_ms: TimestampMs) -> Appended:
        """Write the leader's batches as they are; half a batch at the end is left out.

        Raises ApiError CORRUPT_MESSAGE for rot (nothing of it is stored), OFFSET_OUT_OF_RANGE for batches that do not continue the log.
        """
        batches = check_replicated(data)
        if not batches:
            return Appended(self.log_end_offset, self.log_end_offset - 1)
        first = batches[0][1]
        if first.base_offset < self.log_end_offset:
            self._restart_inside(first, now_ms)
        view = memoryview(data)
        pending: list[tuple[int, BatchHeader]] = []
        for position, header in batches:
            occupied = self._segments.active.size + (position - pending[0][0] if pending else 0)
            if self._must_roll(header, occupied, now_ms):
                self._write_replicated(view, pending, now_ms)
                pending = []
                self._roll_before(header, now_ms)
            pending.append((position, header))
        self._write_replicated(view, pending, now_ms)
        return Appended(first.base_offset, batches[-1][1].last_offset, NO_TIMESTAMP, False, self._durability.is_wanted)

    def assign_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """This replica leads from now on: the epoch begins at the log end, whether or not records come."""
        self._note_epoch(leader_epoch, self.log_end_offset)

    # Reading.

    def read(self, offset: Offset, *, max_bytes: int, end_offset: Offset, at_least_one: bool = True) -> bytes:
        """Batches below `end_offset`, from the one that holds `offset` on; the last may be cut short by `max_bytes`.

        Empty at the end. The first batch comes whole, however large, if `at_least_one` (KIP-74). Raises ApiError OFFSET_OUT_OF_RANGE, and
        CORRUPT_MESSAGE where the file holds no batches.
        """
        self._health.check(self.directory)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
            )
        end_offset = min(end_offset, self.log_end_offset)
        if offset >= end_offset:
            return b""
        with self._reading():
            for segment in self._segments.from_offset(offset):
                position = segment.locate(offset)
                if position is not None:
                    self._segments.warm(segment)
                    is_whole = end_offset == self.log_end_offset or self._segments.ends_before(segment, end_offset)
                    end = segment.size if is_whole else segment.end_before(end_offset)
                    return segment.read(position, end, max_bytes, at_least_one=at_least_one)
        return b""

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """The high watermark, or the first record of a transaction that is undecided below it; never before the log start."""
        unstable = self._producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable > high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)  # Retention may have taken the transaction's first records.

    def aborted_transactions(
        self, start_offset: Offset, end_offset: Offset, *, read_bytes: int | None = None
    ) -> list[AbortedTransaction]:
        """What a reader of [start, end) has to skip; if it got only `read_bytes`, the list ends not far behind them."""
        aborted: list[AbortedTransaction] = []
        with self._reading():
            segments = self._segments.from_offset(start_offset)
            if read_bytes is not None and any(len(segment.transaction_index.entries) for segment in segments):
                read_end = self._segments.offset_after_read(start_offset, read_bytes)
                end_offset = end_offset if read_end is None else min(end_offset, read_end)
            for segment in segments:
                index = segment.transaction_index
                if len(index.entries):
                    self._segments.warm(segment)
                    if index.collect(start_offset, end_offset, aborted):
                        break
        return aborted

    def offset_for_timestamp(self, timestamp_ms: TimestampMs, *, end_offset: Offset) -> TimestampedOffset | None:
        """The first record below `end_offset` whose timestamp is `timestamp_ms` or later."""
        with self._reading():
            return find_by_timestamp(
                self._segments.all, timestamp_ms, start_offset=self.log_start_offset, end_offset=end_offset
            )

    def offset_of_max_timestamp(self, *, end_offset: Offset) -> TimestampedOffset | None:
        """The record below `end_offset` with the largest timestamp (KIP-734)."""
        end_offset = min(end_offset, self.log_end_offset)
        with self._reading():
            return find_max_timestamp(self._segments.all, start_offset=self.log_start_offset, end_offset=end_offset)

    def end_offset_for_epoch(self, leader_epoch: LeaderEpoch) -> EpochEndOffset:
        """The largest epoch known that is not above `leader_epoch`, and where it ends; (-1, -1) if that cannot be said."""
        return self._epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which the record at `offset` was written, -1 if unknown."""
        return self._epochs.epoch_at(offset)

    # Making it durable.

    @property
    def is_flush_wanted(self) -> bool:
        """Whether something waits for a flush that is not under way: acknowledgements, a sealed segment, leader epochs."""
        return self._durability.is_wanted

    def is_flush_due(self, now_ms: TimestampMs) -> bool:
        """Whether flush.ms has passed since the oldest batch that no flush covers."""
        return self._durability.is_due(now_ms, self.config.flush_ms)

    def start_flush(self) -> Flush | None:
        """The work that makes everything up to the log end durable, for the directory's thread; None if nothing is to be done."""
        self._health.check(self.directory)
        return self._durability.start(self._segments.active, self.log_end_offset, self._epochs)

    def on_flushed(self, flush: Flush) -> None:
        """Back on the loop after `flush.perform()`: the recovery point and what may be acknowledged move."""
        self._durability.on_flushed(flush, self.log_end_offset)
        if self._truncation_point.is_set and not flush.is_cancelled:
            self._truncation_point.maybe_remove(
                recovery_point=self.recovery_point, log_start_offset=self.log_start_offset
            )

    def take_retired(self) -> list[Retired]:
        """Files to be unlinked in the directory's thread, each not before its time; they are the caller's from now on."""
        return self._segments.take_retired()

    # Keeping it in shape.

    def maybe_roll(self, now_ms: TimestampMs) -> bool:
        """Begin a new segment if the active one has been open for longer than segment.ms, also when nothing is appended any more."""
        active = self._segments.active
        if active.size == 0 or now_ms - max(active.first_timestamp_ms(), active.created_ms) <= self._roll_after_ms:
            return False
        self._roll(self.log_end_offset, now_ms)
        return True

    def delete_old_segments(self, now_ms: TimestampMs, high_watermark: Offset) -> int:
        """Retire segments that retention.ms, retention.bytes or the log start say may go; how many went."""
        count = count_deletable(
            self._segments.all,
            config=self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
        )
        if count == len(self._segments.all):
            try:
                self._roll(self.log_end_offset, now_ms)
            except DiskFull:
                count -= 1  # The space for a new active segment comes from those that can go now.
        if count == 0:
            return 0
        self.advance_log_start(max(self.log_start_offset, self._segments.bases[count]))
        with self._changing():
            gone = self._segments.retire_first(count, now_ms)
            self._snapshots.discard([segment.base_offset for segment in gone])
        return count

    def advance_log_start(self, offset: Offset) -> bool:
        """Records below `offset` are no longer readable; the caller has made sure that it is not above the high watermark."""
        invariant(offset <= self.log_end_offset, "the log start is never above the log end")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self._epochs.truncate_from_start(offset):
            self._durability.are_epochs_unflushed = True
        return True

    def truncate_to(self, offset: Offset, *, now_ms: TimestampMs = 0) -> bool:
        """Drop records from `offset` on, with the whole batch that holds it; whether the log got shorter.

        The log then ends after its last whole batch, which is before `offset` where that lies inside a batch. An offset at or beyond the
        end still removes epochs without records (KAFKA-10706).
        """
        if offset >= self.log_end_offset:
            self._durability.are_epochs_unflushed |= self._epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._segments.bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        self.cut_count += 1
        with self._changing():
            self._lower_promise(offset)
            end_offset = self._segments.cut(offset, now_ms)
            if end_offset < offset:
                self._lower_promise(
                    end_offset
                )  # A batch around the offset went whole; what comes next begins before it.
        if end_offset < self.log_start_offset:
            self.truncate_fully_and_start_at(max(offset, self.log_start_offset), now_ms=now_ms)
            return True
        self.log_end_offset = end_offset
        self._durability.lower(end_offset, self._segments.all)
        self._durability.are_epochs_unflushed |= self._epochs.truncate_from_end(end_offset)
        with self._changing():
            self._rebuild_producers(now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: Offset, *, now_ms: TimestampMs = 0) -> None:
        """Drop everything and go on, empty, at `offset`; epochs and producers go with the records."""
        self.cut_count += 1
        with self._changing():
            self._lower_promise(offset)
            self._segments.restart(offset, now_ms)
            self._snapshots.discard(list(self._snapshots.offsets))
        self._durability.are_epochs_unflushed |= self._epochs.clear()
        self._producers = ProducerStates()
        self.log_start_offset = self.log_end_offset = offset
        self._durability.restart(offset, offset)

    def replace_segments(self, *, cleaned: Sequence[Offset], replaced: Sequence[Offset], now_ms: TimestampMs) -> None:
        """Put compacted segments, complete and durable in `.cleaned` files, in the place of the segments they were made from.

        Only sealed segments below the recovery point may be replaced. After a crash the log holds exactly the old or the new content.
        """
        with self._changing():
            self._segments.replace(cleaned=cleaned, replaced=replaced, now_ms=now_ms)
            self._snapshots.discard([base for base in replaced if base not in cleaned])

    def keep_topic_id(self, topic_id: TopicId) -> None:
        """Tie the log to its topic, where a crash right after its creation has left no id."""
        with self._changing():
            metadata = keep_topic_id(self._disk, self.directory, topic_id)
        self.topic_id = topic_id
        if metadata is not None:
            self._durability.small_files.append(metadata)
            self._durability.are_names_unflushed = True

    def reconfigure(self, config: LogConfig) -> None:
        """New settings, from now on."""
        self.config = self._segments.config = config
        self._segments.active.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = roll_after_ms(config, self.topic_partition)
        self._durability.reconfigure(config.flush_messages, self.log_end_offset)

    def expire_producers(self, now_ms: TimestampMs) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many went."""
        return self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def active_producers(self) -> list[ProducerState]:
        """The producers the log knows, as DescribeProducers shows them."""
        return list(self._producers)

    def close(self) -> None:
        """End cleanly, synchronously."""
        flush = self.start_closing()
        if flush is not None:
            flush.perform()
        self.finish_closing(flush)

    def start_closing(self) -> Flush | None:
        """Write what a clean end needs, indexes and a producer snapshot; what must then be flushed. No more appends after this.

        A log that is as its last clean end left it needs nothing.
        """
        active = self._segments.active
        with self._changing():
            if active.size > 0 and self.log_end_offset != self._untouched_end_offset:
                active.seal()
                self._durability.small_files.append(self._snapshots.write(self.log_end_offset, self._producers))
                self._durability.sealed.append(active)
            return self.start_flush()

    def finish_closing(self, flush: Flush | None) -> None:
        """The flush of `start_closing` is done: let go of the files. Raises DiskFull if it found no space."""
        if flush is not None:
            self.on_flushed(flush)
            if not flush.is_performed:
                raise DiskFull("flush", self.directory, "no space for the leader epochs")
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files without a last write: the directory failed, or the log is deleted. Flushes under way are cancelled."""
        self._durability.cancel()
        self._durability.let_go(self._segments.all)

    # Appending, inside.

    def _answer_duplicate(self, duplicate: CachedBatch) -> Appended:
        append_time = duplicate.timestamp_ms if self.config.timestamp_type else NO_TIMESTAMP
        return Appended(duplicate.base_offset, duplicate.last_offset, append_time, True, self._durability.is_wanted)

    def _must_roll(self, header: BatchHeader, occupied: int, now_ms: TimestampMs) -> bool:
        """Whether a batch must not go into the active segment, of which `occupied` bytes are taken."""
        active, config = self._segments.active, self.config
        if header.base_offset + header.last_offset_delta - active.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if occupied == 0:
            return False
        first = active.first_timestamp_ms()
        waited_ms = header.max_timestamp - first if first >= 0 else now_ms - active.created_ms
        return (
            occupied + header.length + LENGTH_OVERHEAD > config.segment_bytes
            or waited_ms > self._roll_after_ms
            or active.offset_index.is_full(config.segment_index_bytes)
            or active.time_index.is_full(config.segment_index_bytes)
        )

    def _roll_before(self, header: BatchHeader, now_ms: TimestampMs) -> None:
        """The new segment begins where the log ends, which recovery relies on to notice loss, unless the batch is too far from there."""
        is_near = header.last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
        self._roll(self.log_end_offset if is_near else header.base_offset, now_ms)

    def _roll(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        """Seal the active segment and begin the next; a full disk leaves the log as it was."""
        with self._changing():
            self._segments.active.seal()
            self._durability.small_files.append(self._snapshots.write(base_offset, self._producers))
            self._segments.begin(base_offset, now_ms)

    def _write(self, chunks: Sequence[Buffer]) -> None:
        self._health.check(self.directory)
        active = self._segments.active
        try:
            active.write(chunks)
        except DiskFull as full:
            # Cut away what was written of it, so that the next append finds the end of the file where it was.
            try:
                active.file.truncate(active.size)
            except StorageFailure as failure:
                self._health.fail(failure)
                raise failure from full
            raise
        except StorageFailure as failure:
            self._health.fail(failure)
            raise

    def _note(self, header: BatchHeader, marker: Marker | None) -> None:
        """The batch is written: now it counts for its producer and in the indexes."""
        active = self._segments.active
        try:
            if header.producer_id >= 0:
                finished = self._producers.apply(header, marker)
                if finished is not None and finished.is_aborted:
                    stable_offset = self._producers.stable_offset_after(finished)
                    active.transaction_index.append_finished(finished, stable_offset)
            last_offset = header.base_offset + header.last_offset_delta
            active.note(header.base_offset, last_offset, header.max_timestamp, header.length + LENGTH_OVERHEAD)
        except StorageFailure as failure:
            self._health.fail(failure)
            raise

    def _note_epoch(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        if self._epochs.assign(leader_epoch, start_offset):
            self._durability.are_epochs_unflushed = self._durability.is_wanted = True

    def _restart_inside(self, first: BatchHeader, now_ms: TimestampMs) -> None:
        """The leader's log start may fall inside a batch: an empty follower then begins with the whole of it."""
        is_empty = self.log_end_offset == self.log_start_offset
        if not is_empty or first.last_offset < self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {first.base_offset} does not continue a log that ends at {self.log_end_offset}",
            )
        self.truncate_fully_and_start_at(first.base_offset, now_ms=now_ms)

    def _write_replicated(self, view: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: TimestampMs) -> None:
        if not batches:
            return
        end = batches[-1][0] + batches[-1][1].size
        self._write((view[batches[0][0] : end],))
        for position, header in batches:
            if header.leader_epoch != self._epochs.latest:
                self._note_epoch(header.leader_epoch, header.base_offset)
            self._note(header, marker_of(header, view[position : position + header.size]))
        self.log_end_offset = batches[-1][1].next_offset
        self._durability.advance(self.log_end_offset, now_ms)

    # Keeping it in shape, inside.

    def _lower_promise(self, offset: Offset) -> None:
        lower_floors(self._disk, self.directory, offset)
        self._truncation_point.lower(offset, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset)

    def _rebuild_producers(self, now_ms: TimestampMs) -> None:
        self._untouched_end_offset = None
        self._snapshots.discard_after(self.log_end_offset)
        self._durability.are_names_unflushed = True  # A snapshot that came back would speak of records that are gone.
        self._producers = producers_at(
            self.log_end_offset,
            self._segments.all,
            self._snapshots,
            now_ms=now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What goes wrong while reading: rot is the reader's to hear of, a failing disk takes the directory offline."""
        self._health.check(self.directory)
        try:
            yield
        except CorruptBatch as error:
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

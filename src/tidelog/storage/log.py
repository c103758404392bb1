"""The log of one partition: appends at its end, reads anywhere, and what keeps it in shape.

Synchronous and told the time. Appends and reads touch the page cache only; what must reach the disk leaves as a `Flush` and what may be
removed as `Retired`, both for the thread of the log directory. The high watermark is not ours: callers pass it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from crc32c import crc32c

from tidelog.config import LogConfig
from tidelog.model import NO_TIMESTAMP, ApiError, ErrorCode, LeaderEpoch, Offset, TimestampMs, TopicPartition, invariant
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
from tidelog.storage.flush import Flush
from tidelog.storage.lookup import find_by_timestamp, find_max_timestamp
from tidelog.storage.metadata_file import keep_topic_id
from tidelog.storage.producer_state import CachedBatch, Origin, ProducerStates
from tidelog.storage.recovery import LoadedLog, load_log
from tidelog.storage.replicated import check_replicated
from tidelog.storage.retention import count_deletable
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tidelog.storage.snapshots import marker_of, producers_at
from tidelog.storage.swap import commit_swap, finish_swap
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
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._truncation_point = TruncationPoint(disk, directory, opening)
        self._retired: list[Retired] = []
        self._roll_after_ms = self._compute_roll_after_ms()
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self._durability = durability = Durability(
            disk, directory, opening.health, flush_messages=config.flush_messages
        )
        durability.restart(loaded.log_end_offset, loaded.recovery_point)
        durability.sealed = loaded.unflushed_sealed
        durability.are_epochs_unflushed = loaded.are_epochs_changed
        durability.are_names_unflushed = durability.is_directory_unflushed = loaded.are_names_changed
        durability.is_wanted = bool(loaded.unflushed_sealed)

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
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments in order; the last one is active."""
        return self._segments

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
        if self._must_roll(header, self._active.size, now_ms):
            self._roll_before(header, now_ms)
        self._write((batch,))
        if leader_epoch != self._epochs.latest:
            self._note_epoch(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._note(header, marker)
        self._active.note(base_offset, last_offset, header.max_timestamp, size)
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
            self._restart_inside(first)
        view = memoryview(data)
        pending: list[tuple[int, BatchHeader]] = []
        for position, header in batches:
            occupied = self._active.size + (position - pending[0][0] if pending else 0)
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
        try:
            number = bisect_right(self._bases, offset) - 1
            for segment in self._segments[max(number, 0) :]:
                position = segment.locate(offset)
                if position is not None:
                    end = segment.size if end_offset == self.log_end_offset else segment.end_before(end_offset)
                    return segment.read(position, end, max_bytes, at_least_one=at_least_one)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except StorageFailure as failure:
            raise self._failed(failure) from failure
        return b""

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """The high watermark, or the first record of a transaction that is undecided below it."""
        unstable = self._producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None or unstable > high_watermark else unstable

    def aborted_transactions(self, start_offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        """What a reader of [start, end) has to skip."""
        aborted: list[AbortedTransaction] = []
        number = max(bisect_right(self._bases, start_offset) - 1, 0)
        for segment in self._segments[number:]:
            index = segment.transaction_index
            if len(index.entries) and index.collect(start_offset, end_offset, aborted):
                break
        return aborted

    def offset_for_timestamp(self, timestamp_ms: TimestampMs, *, end_offset: Offset) -> TimestampedOffset | None:
        """The first record below `end_offset` whose timestamp is `timestamp_ms` or later."""
        try:
            return find_by_timestamp(
                self._segments, timestamp_ms, start_offset=self.log_start_offset, end_offset=end_offset
            )
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def offset_of_max_timestamp(self, *, end_offset: Offset) -> TimestampedOffset | None:
        """The record below `end_offset` with the largest timestamp (KIP-734)."""
        try:
            return find_max_timestamp(
                self._segments,
                start_offset=self.log_start_offset,
                end_offset=min(end_offset, self.log_end_offset),
            )
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

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
        return self._durability.start(self._active, self.log_end_offset, self._epochs)

    def on_flushed(self, flush: Flush) -> None:
        """Back on the loop after `flush.perform()`: the recovery point and what may be acknowledged move."""
        self._durability.on_flushed(flush, self.log_end_offset)
        if self._truncation_point.is_set:
            self._truncation_point.maybe_remove(
                recovery_point=self.recovery_point, log_start_offset=self.log_start_offset
            )

    def take_retired(self) -> list[Retired]:
        """Files to be unlinked in the directory's thread, each not before its time; they are the caller's from now on."""
        retired, self._retired = self._retired, []
        return retired

    # Keeping it in shape.

    def maybe_roll(self, now_ms: TimestampMs) -> bool:
        """Begin a new segment if the active one has been open for longer than segment.ms, also when nothing is appended any more."""
        active = self._active
        if active.size == 0 or now_ms - max(active.first_timestamp_ms(), active.created_ms) <= self._roll_after_ms:
            return False
        self._roll(self.log_end_offset, now_ms)
        return True

    def delete_old_segments(self, now_ms: TimestampMs, high_watermark: Offset) -> int:
        """Retire segments that retention.ms, retention.bytes or the log start say may go; how many went."""
        count = count_deletable(
            self._segments,
            config=self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
        )
        if count == 0:
            return 0
        if count == len(self._segments):
            self._roll(self.log_end_offset, now_ms)
        self.advance_log_start(max(self.log_start_offset, self._segments[count].base_offset))
        gone = self._segments[:count]
        self._set_segments(self._segments[count:])
        self._retire(gone, now_ms)
        self._discard_snapshots(gone)
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
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        try:
            end_offset = self._cut(offset, now_ms)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except StorageFailure as failure:
            raise self._failed(failure) from failure
        if end_offset < self.log_start_offset:
            self.truncate_fully_and_start_at(max(offset, self.log_start_offset), now_ms=now_ms)
            return True
        self.log_end_offset = end_offset
        self._durability.lower(end_offset, self._segments)
        self._durability.are_epochs_unflushed |= self._epochs.truncate_from_end(end_offset)
        self._rebuild_producers(now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: Offset, *, now_ms: TimestampMs = 0) -> None:
        """Drop everything and go on, empty, at `offset`; epochs and producers go with the records."""
        try:
            self._truncation_point.lower(
                offset, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset
            )
            gone = self._segments
            self._retire_durably(gone, now_ms)
            self._snapshots.discard(list(self._snapshots.offsets))
            self._set_segments([self._new_segment(offset, now_ms)])
            self._disk.fsync_dir(self.directory)
        except StorageFailure as failure:
            raise self._failed(failure) from failure
        self._durability.are_epochs_unflushed |= self._epochs.clear()
        self._producers = ProducerStates()
        self.log_start_offset = self.log_end_offset = offset
        self._durability.restart(offset, offset)

    def replace_segments(self, *, cleaned: Sequence[Offset], replaced: Sequence[Offset], now_ms: TimestampMs) -> None:
        """Put compacted segments, complete and durable in `.cleaned` files, in the place of the segments they were made from.

        Only sealed segments below the recovery point may be replaced. After a crash the log holds exactly the old or the new content.
        """
        gone = [segment for segment in self._segments if segment.base_offset in replaced]
        invariant(len(gone) == len(replaced), "every replaced segment is still in the log")
        invariant(self._active not in gone, "the active segment is never compacted")
        end = self._bases[self._segments.index(gone[-1]) + 1]
        invariant(end <= self.recovery_point, "only what is durable is compacted")
        try:
            commit_swap(self._disk, self.directory, cleaned=cleaned, replaced=replaced)
            self._retire(gone, now_ms)
            finish_swap(self._disk, self.directory, cleaned=cleaned)
            fresh = [self._open_swapped(base, end) for base in sorted(cleaned)]
            kept = [segment for segment in self._segments if segment.base_offset not in replaced]
            self._set_segments(sorted([*kept, *fresh], key=lambda segment: segment.base_offset))
            self._snapshots.discard([base for base in replaced if base not in cleaned])
        except StorageFailure as failure:
            # Half a swap is no state to go on from; recovery knows how to end it.
            self._health.fail(failure)
            raise

    def reconfigure(self, config: LogConfig) -> None:
        """New settings, from now on."""
        self.config = config
        for segment in self._segments:
            segment.index_interval_bytes = config.index_interval_bytes
        self._roll_after_ms = self._compute_roll_after_ms()
        self._durability.flush_messages = config.flush_messages
        self._durability.settle(self.log_end_offset)

    def expire_producers(self, now_ms: TimestampMs) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many went."""
        return self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def close(self) -> None:
        """End cleanly, synchronously: indexes in their files, a producer snapshot, everything flushed."""
        try:
            self._active.seal()
            self._durability.small_files.append(self._snapshots.write(self.log_end_offset, self._producers))
            self._durability.sealed = [*self._durability.sealed, self._active]
            flush = self.start_flush()
            if flush is not None:
                flush.perform()
                self.on_flushed(flush)
                if not flush.is_performed:
                    raise DiskFull("flush", self.directory, "no space for the leader epochs")
        except StorageFailure as failure:
            raise self._failed(failure) from failure
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files without a last write: the directory failed, or the log is being deleted. Outstanding flushes are cancelled."""
        self._durability.cancel()
        self._durability.let_go(self._segments)

    # Appending, inside.

    def _answer_duplicate(self, duplicate: CachedBatch) -> Appended:
        append_time = duplicate.timestamp_ms if self.config.timestamp_type else NO_TIMESTAMP
        return Appended(duplicate.base_offset, duplicate.last_offset, append_time, True, self._durability.is_wanted)

    def _must_roll(self, header: BatchHeader, occupied: int, now_ms: TimestampMs) -> bool:
        """Whether a batch must not go into the active segment, of which `occupied` bytes are taken."""
        active, config = self._active, self.config
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
        old = self._active
        try:
            old.seal()
            self._durability.small_files.append(self._snapshots.write(base_offset, self._producers))
            fresh = self._new_segment(base_offset, now_ms)
        except StorageFailure as failure:
            raise self._failed(failure) from failure
        self._durability.sealed.append(old)
        self._set_segments([*self._segments, fresh])
        self._durability.is_wanted = True

    def _new_segment(self, base_offset: Offset, now_ms: TimestampMs) -> Segment:
        segment = Segment(
            self._disk, self.directory, base_offset, index_interval_bytes=self.config.index_interval_bytes
        )
        segment.created_ms = now_ms
        self._durability.are_names_unflushed = True
        return segment

    def _write(self, chunks: Sequence[Buffer]) -> None:
        self._health.check(self.directory)
        active = self._active
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
        """The batch is written: now its producer's state may change."""
        finished = self._producers.apply(header, marker)
        if finished is not None and finished.is_aborted:
            self._active.transaction_index.append_finished(finished, self._producers.stable_offset_after(finished))

    def _note_epoch(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        if self._epochs.assign(leader_epoch, start_offset):
            self._durability.are_epochs_unflushed = self._durability.is_wanted = True

    def _restart_inside(self, first: BatchHeader) -> None:
        """The leader's log start may fall inside a batch: an empty follower then begins with the whole of it."""
        is_empty = self.log_end_offset == self.log_start_offset
        if not is_empty or first.last_offset < self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {first.base_offset} does not continue a log that ends at {self.log_end_offset}",
            )
        self.truncate_fully_and_start_at(first.base_offset)

    def _write_replicated(self, view: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: TimestampMs) -> None:
        if not batches:
            return
        end = batches[-1][0] + batches[-1][1].size
        self._write((view[batches[0][0] : end],))
        for position, header in batches:
            if header.leader_epoch != self._epochs.latest:
                self._note_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note(header, marker_of(header, view[position : position + header.size]))
            self._active.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
        self.log_end_offset = batches[-1][1].next_offset
        self._durability.advance(self.log_end_offset, now_ms)

    # Keeping it in shape, inside.

    def _cut(self, offset: Offset, now_ms: TimestampMs) -> Offset:
        """Remove everything from `offset` on; the new end. First the promise on disk is lowered, then whole segments go, then the rest."""
        self._truncation_point.lower(offset, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset)
        keep = max(bisect_right(self._bases, offset), 1)
        while keep > 1 and self._bases[keep - 1] >= offset:
            keep -= 1  # A segment that would be left empty goes too.
        gone = self._segments[keep:]
        self._set_segments(self._segments[:keep])
        self._retire_durably(gone, now_ms)
        return self._active.truncate_to(offset)

    def _rebuild_producers(self, now_ms: TimestampMs) -> None:
        self._snapshots.discard_after(self.log_end_offset)
        self._producers = producers_at(
            self.log_end_offset,
            self._segments,
            self._snapshots,
            now_ms=now_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )

    def _open_swapped(self, base_offset: Offset, end_offset: Offset) -> Segment:
        segment = Segment(
            self._disk, self.directory, base_offset, index_interval_bytes=self.config.index_interval_bytes
        )
        segment.created_ms = segment.mtime_ms()
        invariant(segment.size == 0 or segment.load_indexes(end_offset), "the cleaner leaves sound indexes")
        segment.close_indexes()
        return segment

    def _retire(self, gone: Iterable[Segment], now_ms: TimestampMs) -> None:
        """Take segments' files out of the log's sight, to be unlinked after file.delete.delay.ms."""
        not_before_ms = now_ms + self.config.file_delete_delay_ms
        self._durability.are_names_unflushed = True
        try:
            for segment in gone:
                self._retired.extend(Retired(path, not_before_ms) for path in segment.retire())
                self._durability.let_go((segment,))
        except StorageFailure as failure:
            raise self._failed(failure) from failure

    def _retire_durably(self, gone: Sequence[Segment], now_ms: TimestampMs) -> None:
        """The last one first and each made durable, so that a crash in between leaves no hole."""
        for segment in reversed(gone):
            self._retire((segment,), now_ms)
            self._disk.fsync_dir(self.directory)

    def _discard_snapshots(self, gone: Iterable[Segment]) -> None:
        try:
            self._snapshots.discard([segment.base_offset for segment in gone])
        except StorageFailure as failure:
            raise self._failed(failure) from failure

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]

    def _failed(self, failure: StorageFailure) -> StorageFailure:
        if not isinstance(failure, DiskFull):
            self._health.fail(failure)
        return failure

    def _compute_roll_after_ms(self) -> int:
        """segment.ms less a jitter that is the same at every start, so that partitions do not all roll at once."""
        config = self.config
        longest = config.segment_ms
        if config.is_compacted and config.max_compaction_lag_ms is not None:
            longest = min(longest, config.max_compaction_lag_ms)
        jitter_max = min(config.segment_jitter_ms, longest)
        return longest - crc32c(str(self.topic_partition).encode()) % (jitter_max + 1)

"""Appending to a log: as leader, which gives offsets, and as follower, which takes its leader's bytes as they are.

A batch is checked, then written, then noted: a write that fails leaves no trace in what the log knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model import NO_TIMESTAMP, ApiError, ErrorCode, LeaderEpoch, Offset, TimestampMs, invariant
from tidelog.records.batch import APPEND_TIME_BIT, LENGTH_OVERHEAD, BatchHeader, read_header, stamp
from tidelog.records.control import Marker
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.runtime.disk import Buffer
from tidelog.storage.log_shaping import ShapeableLog
from tidelog.storage.producer_state import CachedBatch, Origin
from tidelog.storage.replicated import check_replicated
from tidelog.storage.segment import RELATIVE_OFFSET_MAX
from tidelog.storage.snapshots import headers_before, marker_of
from tidelog.storage.values import Appended
from tidelog.storage.verification import Guard


class AppendableLog(ShapeableLog):
    """A log that grows, into new segments where the active one is full."""

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
        origin: Origin = Origin.CLIENT,
        header: BatchHeader | None = None,
        guard: Guard | None = None,
    ) -> Appended:
        """Give a validated batch the next offsets, in place, and write it; a retry of a known batch gets the old offsets and writes nothing.

        Whoever validated it may pass on the `header` he has read. The first batch of a client's transaction needs the `guard` with which
        its coordinator was asked.

        Raises ApiError where the producer's state says no, DiskFull (the log is as before), StorageFailure.
        """
        if header is None:
            header = read_header(batch)
        invariant(header.length + LENGTH_OVERHEAD == len(batch), "a leader appends one whole batch")
        marker: Marker | None = None
        if header.producer_id >= 0:
            marker = marker_of(header, batch)
            if marker is None and origin is Origin.CLIENT:
                duplicate = self._duplicate_of(header, guard)
                if duplicate is not None:
                    return self._answer_duplicate(duplicate)
            self._producers.check(header, marker, origin)
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

    def append_marker(
        self, marker: bytearray, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs, has_own_epoch: bool
    ) -> Appended:
        """Write down how a producer's transaction ended, for its coordinator.

        Where each transaction has an epoch of its own, the marker's must be one that nothing of the producer was written under (KIP-1228):
        a marker that comes late does not end the transaction after the one it is for. One that is told again after it was written is not
        written again; who waits for it waits for everything there is.

        Raises as `append_as_leader` does.
        """
        header = read_header(marker)
        if has_own_epoch and self._producers.is_ended(header):
            last_offset = self.log_end_offset - 1
            return Appended(last_offset, last_offset, NO_TIMESTAMP, True, self._durability.is_wanted)
        return self.append_as_leader(
            marker, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR, header=header
        )

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

    # Inside.

    def _duplicate_of(self, header: BatchHeader, guard: Guard | None) -> CachedBatch | None:
        """The batch of which a client's is a retry; for a new one it is seen to that its transaction is open. Raises ApiError."""
        forgetful = self._producers.forgetful_about(header)
        if forgetful is not None:
            forgetful.recall(headers_before(forgetful.batches[0].base_offset, self._segments.all))
        known = self._producers.get(header.producer_id)
        duplicate = None if known is None else known.find_duplicate(header)
        if duplicate is None and header.is_transactional:
            self.verification.check(known, header, guard)
        return duplicate

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
                if header.is_transactional:
                    self.verification.note(header)
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

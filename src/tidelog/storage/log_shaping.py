"""What changes the shape of a log: rolling at its end, deleting at its start, cutting it back, swapping compacted segments in.

Every step leaves the files so that a crash after it is recovered from: promises are lowered before records go, and raised after they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tidelog.model import Offset, TimestampMs, invariant
from tidelog.runtime import DiskFull
from tidelog.storage.floors import Floors, lower_floors, raise_floors
from tidelog.storage.log_state import LogState
from tidelog.storage.producer_state import ProducerStates
from tidelog.storage.retention import count_deletable
from tidelog.storage.snapshots import producers_at

_DELETED_AT_ONCE_MAX: Final = 50
"""Segments: the loop is not to be held for as long as thousands of renames take."""


class ShapeableLog(LogState):
    """A log that gains and loses segments."""

    def maybe_roll(self, now_ms: TimestampMs) -> bool:
        """Begin a new segment if the active one has been open for longer than segment.ms, also when nothing is appended any more."""
        active = self._segments.active
        if active.size == 0 or now_ms - max(active.first_timestamp_ms(), active.created_ms) <= self._roll_after_ms:
            return False
        self._roll(self.log_end_offset, now_ms)
        return True

    def delete_old_segments(self, now_ms: TimestampMs, high_watermark: Offset) -> int:
        """Retire segments that retention.ms, retention.bytes or the log start say may go; how many went. There may be more to go then."""
        count = count_deletable(
            self._segments.all,
            config=self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
        )
        if count == len(self._segments.all) <= _DELETED_AT_ONCE_MAX:
            try:
                self._roll(self.log_end_offset, now_ms)
            except DiskFull:
                count -= 1  # The space for a new active segment comes from those that can go now.
        count = min(count, _DELETED_AT_ONCE_MAX)
        if count == 0:
            return 0
        with suppress(DiskFull):  # Then a crash may bring old records back, which is no reason to keep the disk full.
            self._promise_start(self._segments.bases[count])
            self._keep_producers_before(count)
        self._advance_start(self._segments.bases[count])
        with self._changing():
            gone = self._segments.retire_first(count, now_ms)
            self._snapshots.discard([segment.base_offset for segment in gone])
        return count

    def advance_log_start(self, offset: Offset) -> bool:
        """Records below `offset` are no longer readable; the caller has made sure that it is not above the high watermark."""
        invariant(offset <= self.log_end_offset, "the log start is never above the log end")
        if offset <= self.log_start_offset:
            return False
        self._promise_start(offset)
        self._advance_start(offset)
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
            self._lower_promises(offset)
            end_offset = self._segments.cut(offset, now_ms)
            if (
                end_offset < offset
            ):  # The offset was inside a batch, which went whole; what comes next begins before it.
                self._lower_promises(end_offset)
        if end_offset < self.log_start_offset:
            self.truncate_fully_and_start_at(max(offset, self.log_start_offset), now_ms=now_ms)
            return True
        self.log_end_offset = end_offset
        self._forget_cut(end_offset)
        self._durability.lower(end_offset, self._segments.all)
        self._durability.are_epochs_unflushed |= self._epochs.truncate_from_end(end_offset)
        with self._changing():
            self._rebuild_producers(now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: Offset, *, now_ms: TimestampMs = 0) -> None:
        """Drop everything and go on, empty, at `offset`; epochs and producers go with the records."""
        self.cut_count += 1
        with self._changing():
            self._lower_promises(offset)
            self._segments.restart(offset, now_ms)
            self._snapshots.discard(list(self._snapshots.offsets))
        self._durability.are_epochs_unflushed |= self._epochs.clear()
        self._producers = ProducerStates()
        self.log_start_offset = self.log_end_offset = offset
        self._forget_cut(offset)
        self._durability.restart(offset, offset)

    def replace_segments(self, *, cleaned: Sequence[Offset], replaced: Sequence[Offset], now_ms: TimestampMs) -> None:
        """Put compacted segments, complete and durable in `.cleaned` files, in the place of the segments they were made from.

        Only sealed segments below the recovery point may be replaced. After a crash the log holds exactly the old or the new content.
        """
        with self._changing():
            self._segments.replace(cleaned=cleaned, replaced=replaced, now_ms=now_ms)
            self._snapshots.discard([base for base in replaced if base not in cleaned])

    # Inside.

    def _roll(self, base_offset: Offset, now_ms: TimestampMs) -> None:
        """Seal the active segment and begin the next; a full disk leaves the log as it was."""
        with self._changing():
            self._segments.active.seal()
            self._durability.small_files.append(self._snapshots.write(base_offset, self._producers))
            self._segments.begin(base_offset, now_ms)

    def _promise_start(self, offset: Offset) -> None:
        if self._truncation_point.is_set:  # The directory's checkpoint of the log start would not be believed.
            with self._changing():
                raise_floors(self._disk, self.directory, Floors(log_start_offset=offset))

    def _keep_producers_before(self, count: int) -> None:
        """What is known of producers only through the oldest segments is in the snapshot after them: it must outlive a crash better than they.

        Else a marker that stays behind would say that its producer never wrote a record, and the next one would be out of order.
        """
        if self._segments.all[count - 1] in self._durability.sealed:
            with self._changing():
                self._snapshots.make_durable(self._segments.bases[count])

    def _advance_start(self, offset: Offset) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._durability.are_epochs_unflushed |= self._epochs.truncate_from_start(offset)

    def _lower_promises(self, offset: Offset) -> None:
        lower_floors(self._disk, self.directory, offset)
        self._truncation_point.lower(offset, recovery_point=self.recovery_point, log_start_offset=self.log_start_offset)

    def _forget_cut(self, end_offset: Offset) -> None:
        """Rot that was cut away is gone; and what is left may be older than this process."""
        if self.damaged_from is not None and end_offset <= self.damaged_from:
            self.forget_damage()
        self._unchecked_from = end_offset

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

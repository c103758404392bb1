"""Reading a log: by offset, by time, by leader epoch, and what a reader of committed records must know."""

from __future__ import annotations

from tidelog.model import ApiError, ErrorCode, LeaderEpoch, Offset, TimestampMs
from tidelog.records.batch import CorruptBatch
from tidelog.storage.damage import sound_prefix
from tidelog.storage.epoch_cache import EpochEndOffset
from tidelog.storage.log_state import LogState
from tidelog.storage.lookup import find_by_timestamp, find_max_timestamp
from tidelog.storage.names import LOG
from tidelog.storage.segment import Segment
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.values import TimestampedOffset
from tidelog.storage.visible import VisibleCounting


class ReadableLog(LogState):
    """What can be asked of a log. The high watermark is not ours: callers pass the end of what their reader may see."""

    def read(
        self,
        offset: Offset,
        *,
        max_bytes: int,
        end_offset: Offset,
        at_least_one: bool = True,
        is_doubted: bool = False,
    ) -> bytes:
        """Batches below `end_offset`, from the one that holds `offset` on; the last may be cut short by `max_bytes`.

        Empty at the end. The first batch comes whole, however large, if `at_least_one` (KIP-74). Raises ApiError OFFSET_OUT_OF_RANGE, and
        CORRUPT_MESSAGE where the next batch is not what was written: rot never leaves the log (D10). What this process has appended to
        the active segment is not checked, unless it `is_doubted`.
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
        with self._reading(offset):
            for segment in self._segments.from_offset(offset):
                position = segment.locate(offset)
                if position is not None:
                    is_whole = end_offset == self.log_end_offset or self._segments.ends_before(segment, end_offset)
                    end = None if is_whole else segment.locate(end_offset)
                    end = segment.size if end is None else end
                    data = segment.read(position, end, max_bytes, at_least_one=at_least_one)
                    if is_doubted or segment is not self._segments.active or offset < self._unchecked_from:
                        return self._checked(data, offset, segment)
                    return data
        return b""

    def _checked(self, data: bytes, offset: Offset, segment: Segment) -> bytes:
        """The batches before any rot; rot at the very beginning is the reader's to hear of."""
        if not self._are_gaps_known and data and int.from_bytes(data[:8], "big") > offset:
            self.note_damage(offset)  # To be looked into: a batch that is not where it was may have been passed over.
        sound = sound_prefix(data, offset, self._segments.end_of(segment, self.log_end_offset))
        if sound.damaged_from is None:
            return data
        self.note_damage(sound.damaged_from)
        if sound.size == 0:
            raise CorruptBatch(f"the batch at offset {offset} of {segment.path(LOG)} is not what was written")
        return data[: sound.size]

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
        with self._reading(end_offset):
            segments = self._segments.from_offset(start_offset)
            if read_bytes is not None and any(len(segment.transaction_index.entries) for segment in segments):
                read_end = self._segments.offset_after_read(start_offset, read_bytes)
                end_offset = end_offset if read_end is None else min(end_offset, read_end)
            for segment in segments:
                index = segment.transaction_index
                if len(index.entries) and index.collect(start_offset, end_offset, aborted):
                    break
        return aborted

    def count_visible(self, counting: VisibleCounting) -> None:
        """The next step of a counting. Raises ApiError, StorageFailure."""
        with self._reading(counting.next_offset):
            counting.step(self._segments, self.log_start_offset, self.cut_count)

    def offset_for_timestamp(self, timestamp_ms: TimestampMs, *, end_offset: Offset) -> TimestampedOffset | None:
        """The first record below `end_offset` whose timestamp is `timestamp_ms` or later."""
        with self._reading(end_offset):
            return find_by_timestamp(
                self._segments.all, timestamp_ms, start_offset=self.log_start_offset, end_offset=end_offset
            )

    def offset_of_max_timestamp(self, *, end_offset: Offset) -> TimestampedOffset | None:
        """The record below `end_offset` with the largest timestamp (KIP-734)."""
        end_offset = min(end_offset, self.log_end_offset)
        with self._reading(end_offset):
            return find_max_timestamp(self._segments.all, start_offset=self.log_start_offset, end_offset=end_offset)

    def end_offset_for_epoch(self, leader_epoch: LeaderEpoch) -> EpochEndOffset:
        """The largest epoch known that is not above `leader_epoch`, and where it ends; (-1, -1) if that cannot be said."""
        return self._epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which the record at `offset` was written, -1 if unknown."""
        return self._epochs.epoch_at(offset)

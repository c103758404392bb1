"""A replica as follower: it copies its leader's log, cutting its own back to where both agree."""

from __future__ import annotations

from tidelog.config.replication import LEADER_EPOCH
from tidelog.model import NO_LEADER, NO_LEADER_EPOCH, ApiError, ErrorCode, Offset, TimestampMs
from tidelog.partition.events import FlushWanted, HighWatermarkAdvanced, LogEndAdvanced, PartitionEvent
from tidelog.partition.replica_state import ReplicaState
from tidelog.partition.values import FetchPosition
from tidelog.runtime.disk import Buffer
from tidelog.storage import EpochEndOffset, PartitionLog


def agreed_offset(log: PartitionLog, answer: EpochEndOffset, high_watermark: Offset) -> Offset:
    """How much of our log to keep after the leader said where an epoch ends in its own (KIP-279).

    Where our history has another epoch at that place the leader is asked again, with the epoch that is then our newest, until both agree.
    A leader that knows no epochs leaves us nothing better than the high watermark.
    """
    log_end_offset = log.log_end_offset
    if answer.end_offset < 0:
        return high_watermark
    ours = log.end_offset_for_epoch(answer.leader_epoch)
    if ours.end_offset < 0:
        return min(answer.end_offset, log_end_offset)
    if ours.leader_epoch != answer.leader_epoch:
        return min(ours.end_offset, log_end_offset)
    return min(ours.end_offset, answer.end_offset, log_end_offset)


class FollowingReplica(ReplicaState):
    """The follower's side of a replica. Its methods raise ApiError on a replica that does not follow (any more) or is offline."""

    def fetch_position(self) -> FetchPosition | None:
        """Where to fetch next; None while there is nobody to fetch from, or while what was fetched is not settled.

        Fetching from an offset tells the leader that everything below it is held, so what flush.messages wants flushed is flushed first,
        and a replica that has met rot holds still until it is repaired.
        """
        leadership, log = self._leadership, self.log
        if leadership is None or leadership.leader == NO_LEADER or self.is_leader or self._is_offline:
            return None
        if log.settled_end_offset < log.log_end_offset or log.damaged_from is not None:
            return None
        is_by_epoch = self._replication.truncation == LEADER_EPOCH
        return FetchPosition(
            fetch_offset=log.log_end_offset,
            leader_epoch=leadership.leader_epoch,
            last_fetched_epoch=log.latest_leader_epoch if is_by_epoch else NO_LEADER_EPOCH,
            log_start_offset=log.log_start_offset,
        )

    def append_as_follower(
        self, data: Buffer, *, leader_high_watermark: Offset, leader_log_start_offset: Offset, now_ms: TimestampMs
    ) -> list[PartitionEvent]:
        """Take over what an answer brought, perhaps no records but news of the high watermark.

        The answer must belong to the present position and must not be a diverging one, whose high watermark says nothing about our log
        (R06). Raises ApiError for records that are damaged or do not continue the log; nothing is taken over then.
        """
        self._require_following()
        log, events = self.log, list[PartitionEvent]()
        if self._is_ours_alone(log.log_end_offset, leader_log_start_offset) and not self._copied_from_this_leader:
            log.truncate_fully_and_start_at(leader_log_start_offset, now_ms=now_ms)
            events += self._after_cut(leader_log_start_offset)
        if len(data) > 0:
            before = log.log_end_offset
            try:
                log.append_as_follower(data, now_ms=now_ms)
            finally:
                # An empty log begins anew inside its leader's first batch, also where a full disk then takes nothing of that.
                self.high_watermark = min(self.high_watermark, log.log_end_offset)
            if log.log_end_offset != before:
                events.append(LogEndAdvanced(log.log_end_offset))
            if log.is_flush_wanted:
                events.append(FlushWanted())
        before = self.high_watermark
        # What was committed stays so: a new leader that has yet to learn how far that went does not take it back.
        self.high_watermark = min(max(before, leader_high_watermark, log.log_start_offset), log.log_end_offset)
        if self.high_watermark > before:
            events.append(HighWatermarkAdvanced(self.high_watermark))
        start_offset = min(leader_log_start_offset, self.high_watermark)
        if start_offset > log.log_start_offset:
            log.advance_log_start(start_offset)
        return events

    def truncate_where_parted(
        self, answer: EpochEndOffset, *, leader_log_start_offset: Offset, now_ms: TimestampMs
    ) -> list[PartitionEvent]:
        """Cut away what the leader does not have, as far as one answer tells; the next fetch finds out whether that was all of it."""
        self._require_following()
        before = self.log.log_end_offset
        agreed = agreed_offset(self.log, answer, self.high_watermark)
        if self._is_ours_alone(agreed, leader_log_start_offset):
            self.log.truncate_fully_and_start_at(leader_log_start_offset, now_ms=now_ms)
        else:
            self.log.truncate_to(agreed, now_ms=now_ms)
        return self._after_cut(before)

    def cut_damage(self, offset: Offset, *, now_ms: TimestampMs) -> list[PartitionEvent]:
        """Drop what is rotten, from `offset` on, to fetch it anew. The caller has made sure that nobody counts on this replica."""
        self._require_following()
        before = self.log.log_end_offset
        self.log.truncate_to(offset, now_ms=now_ms)
        self.log.forget_damage()
        return self._after_cut(before)

    def reset_to(
        self, *, leader_log_start_offset: Offset, leader_log_end_offset: Offset, now_ms: TimestampMs
    ) -> list[PartitionEvent]:
        """Our position is out of the leader's range: cut what it never had, or begin anew where it begins; else just go on (R10)."""
        self._require_following()
        log, before = self.log, self.log.log_end_offset
        if leader_log_end_offset < before:
            log.truncate_to(leader_log_end_offset, now_ms=now_ms)
        elif leader_log_start_offset > before:
            log.truncate_fully_and_start_at(leader_log_start_offset, now_ms=now_ms)
        return self._after_cut(before)

    # Inside.

    def _is_ours_alone(self, end_offset: Offset, leader_log_start_offset: Offset) -> bool:
        """Whether a log that ends there ends in records that may never have been committed, and that the leader can say nothing of.

        It has deleted what it had in their place. Kept, they would be below the log start until a crash takes that back.
        """
        return self.high_watermark < end_offset <= leader_log_start_offset

    @property
    def _copied_from_this_leader(self) -> bool:
        return self._leadership is not None and self.log.latest_leader_epoch == self._leadership.leader_epoch

    def _require_following(self) -> None:
        if self._is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this replica has failed")
        if not self.is_follower:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "only a follower takes over its leader's log")

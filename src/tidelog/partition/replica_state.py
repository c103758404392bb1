"""What every replica has, whatever its role: a log, what it was told of its leader, a high watermark, and the guards in front of them.

The invariants of the room, on one replica: `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`, and within one
reign the high watermark never goes back. The high watermark is exclusive: a record is committed iff its offset is below it.

The high watermark follows the log's *settled* end, not its end: where the flush settings ask for an fsync, a record does not count as held
by this replica before that fsync has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.model import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    ApiError,
    BrokerId,
    ErrorCode,
    LeaderEpoch,
    Offset,
    TimestampMs,
    TopicPartition,
)
from tidelog.partition.events import FlushWanted, HighWatermarkAdvanced, LogTruncated, PartitionEvent
from tidelog.partition.isr import InSyncReplicas
from tidelog.partition.remote_replica import NEVER, RemoteReplica
from tidelog.partition.rules import TopicRules
from tidelog.partition.values import Leadership, RemoteDescription, ReplicaDescription, ReplicationRules
from tidelog.partition.watermark import committed_end
from tidelog.storage import PartitionLog

_DEFAULT_RULES: Final = ReplicationRules()


def _everybody(_: BrokerId) -> bool:
    return True


class ReplicaState:
    """The ground floor of a replica. Methods that change state return the events their change calls for."""

    def __init__(
        self,
        broker_id: BrokerId,
        log: PartitionLog,
        *,
        high_watermark: Offset,
        rules: ReplicationRules = _DEFAULT_RULES,
        is_eligible: Callable[[BrokerId], bool] = _everybody,
    ) -> None:
        self.log = log
        self.broker_id: Final = broker_id
        self._replication = rules
        self._is_eligible = is_eligible
        self._leadership: Leadership | None = None
        # Invariant: log_start_offset <= high_watermark <= log_end_offset. A checkpoint may be older or, after a crash, ahead of the log.
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.reign = 0
        """How often this replica began to lead. A request that waits here is not disturbed while the number stays the same."""
        self._epoch_start_offset: Offset = 0  # The log end when this replica was last elected.
        self._isr = InSyncReplicas()
        self._remotes: dict[BrokerId, RemoteReplica] = {}
        self.min_isr = 1
        """How many replicas must be in sync for records to be committed."""
        self._may_commit = False  # Leads, and so many are in sync.
        self._monotonic_ms = 0.0  # The latest time we were told.
        self._is_offline = False
        self.rules = TopicRules(log.config)
        """What produced batches must obey, for those who validate them elsewhere."""

    # What it is.

    @property
    def topic_partition(self) -> TopicPartition:
        """Which log this is a replica of."""
        return self.log.topic_partition

    @property
    def leadership(self) -> Leadership | None:
        """The newest leader and ISR this replica was told; None before the first."""
        return self._leadership

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The newest leader epoch this replica was told."""
        return self._leadership.leader_epoch if self._leadership is not None else NO_LEADER_EPOCH

    @property
    def is_leader(self) -> bool:
        """Whether this replica serves writes."""
        return self._leadership is not None and self._leadership.leader == self.broker_id

    @property
    def is_follower(self) -> bool:
        """Whether this replica copies another; there may be nobody to copy just now."""
        return self._leadership is not None and self._leadership.leader != self.broker_id

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR, on the leader; nobody on a follower, which does not hear of every change."""
        return self._isr.committed

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        """The ISR and whoever is on the way into it: all of them count for the high watermark."""
        return self._isr.maximal

    @property
    def last_stable_offset(self) -> Offset:
        """Exclusive bound below which every transaction is decided."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached what the log held at the election.

        Before that, records that an earlier leader committed may lie above it, and "the end" would be a step back (KIP-207).
        """
        return self.high_watermark >= self._epoch_start_offset

    def describe(self, wall_ms: TimestampMs, monotonic_ms: float) -> ReplicaDescription:
        """What this replica knows of itself and, on the leader, of the others."""
        known = self._leadership
        return ReplicaDescription(
            is_leader=self.is_leader,
            leader_id=NO_LEADER if known is None else known.leader,
            leader_epoch=self.leader_epoch,
            last_epoch=self.log.latest_leader_epoch,
            log_start_offset=self.log.log_start_offset,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            isr=self._isr.committed,
            assignment=() if known is None else known.assignment,
            remotes=tuple(_describe(remote, wall_ms, monotonic_ms) for remote in self._remotes.values()),
        )

    # Guards.

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch, *, may_follow: bool = False) -> Leadership:
        """Fence a reader that knows another epoch (KIP-320), and one that needs the leader unless he `may_follow`.

        Raises ApiError; returns the leadership he may rely on.
        """
        return self._require_role(current_leader_epoch, may_follow=may_follow)

    def _require_role(self, current_leader_epoch: LeaderEpoch, *, may_follow: bool = False) -> Leadership:
        leadership = self._leadership
        if self._is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this replica has failed")
        if leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != leadership.leader_epoch:
            is_behind = current_leader_epoch < leadership.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if is_behind else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if leadership.leader != self.broker_id and not may_follow:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return leadership

    # Inside.

    def _note_time(self, monotonic_ms: float) -> None:
        if monotonic_ms > self._monotonic_ms:
            self._monotonic_ms = monotonic_ms

    def _recount(self) -> None:
        """The ISR, the assignment or the settings have changed: see whether enough replicas are in sync.

        While a reassignment runs, the replicas it adds do not raise what is asked for.
        """
        leadership = self._leadership
        if leadership is None:
            self._may_commit = False
            return
        self.min_isr = min(self.log.config.min_insync_replicas, leadership.original_count)
        self._may_commit = self.is_leader and len(self._isr.committed) >= self.min_isr

    def _consequences(self) -> list[PartitionEvent]:
        """What any change of the log may call for."""
        events: list[PartitionEvent] = []
        if self.log.is_flush_wanted:
            events.append(FlushWanted())
        if self._maybe_advance_high_watermark():
            events.append(HighWatermarkAdvanced(self.high_watermark))
        return events

    def _newly_committed(self) -> list[PartitionEvent]:
        """What a change of who counts may call for."""
        return [HighWatermarkAdvanced(self.high_watermark)] if self._maybe_advance_high_watermark() else []

    def _maybe_advance_high_watermark(self) -> bool:
        candidate = self.log.settled_end_offset
        if candidate <= self.high_watermark or not self._may_commit:
            return False
        if self._remotes:
            candidate = committed_end(candidate, self._remotes.values(), self._isr.maximal, self._is_about_to_join)
            if candidate <= self.high_watermark:
                return False
        self.high_watermark = candidate
        return True

    def _is_about_to_join(self, remote: RemoteReplica) -> bool:
        is_caught_up = remote.is_caught_up(
            self.log.log_end_offset, self._monotonic_ms, self._replication.lag_time_max_ms
        )
        return is_caught_up and self._is_eligible(remote.broker_id)

    def _after_cut(self, end_offset_before: Offset) -> list[PartitionEvent]:
        """The log may have been cut back: the high watermark stays within it."""
        log = self.log
        self.high_watermark = min(max(self.high_watermark, log.log_start_offset), log.log_end_offset)
        events: list[PartitionEvent] = []
        if log.log_end_offset != end_offset_before:
            events.append(LogTruncated(end_offset_before, log.log_end_offset))
        if log.is_flush_wanted:
            events.append(FlushWanted())
        return events


def _describe(remote: RemoteReplica, wall_ms: TimestampMs, monotonic_ms: float) -> RemoteDescription:
    caught_up_ms = remote.last_caught_up_ms
    return RemoteDescription(
        broker_id=remote.broker_id,
        log_end_offset=remote.log_end_offset,
        last_caught_up_ms=NO_TIMESTAMP if caught_up_ms == NEVER else wall_ms - int(monotonic_ms - caught_up_ms),
    )

"""One replica of one partition: its role, its epochs, its high watermark.

The invariants of the room, on one replica: `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`, and within one
leader epoch the high watermark never goes back. The high watermark is exclusive: a record is committed iff its offset is below it.

The high watermark follows the log's *settled* end, not its end: where the flush settings ask for an fsync, a record does not count as held
by this replica before that fsync has returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config import LogConfig
from tidelog.model import (
    NO_LEADER_EPOCH,
    Acks,
    ApiError,
    BrokerId,
    ErrorCode,
    IsolationLevel,
    LeaderEpoch,
    Offset,
    TimestampMs,
    TopicPartition,
    invariant,
)
from tidelog.partition.events import (
    FlushWanted,
    HighWatermarkAdvanced,
    LeadershipChanged,
    LogEndAdvanced,
    PartitionEvent,
)
from tidelog.partition.rules import TopicRules
from tidelog.records import CorruptBatch, Validated, validate_produced
from tidelog.storage import AbortedTransaction, Appended, Flush, PartitionLog
from tidelog.storage.span import bytes_between


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Leader and ISR of a partition as the registry holds them; `partition_epoch` orders all of them."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """What a reader gets: bytes, and the bounds they were read under, taken at one instant."""

    records: bytes
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted_transactions: tuple[AbortedTransaction, ...] | None  # None for readers that do not filter.


class Partition:
    """State machine of one replica. Methods that change state return the events their change calls for."""

    def __init__(self, broker_id: BrokerId, log: PartitionLog, *, high_watermark: Offset) -> None:
        self.log = log
        self._broker_id = broker_id
        self._leadership: Leadership | None = None
        # Invariant: log_start_offset <= high_watermark <= log_end_offset. A checkpoint may be older or, after a crash, ahead of the log.
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self._epoch_start_offset: Offset = 0  # The log end when this replica was last elected.
        self._is_offline = False
        self.rules = TopicRules(log.config)
        """What produced batches must obey, for those who validate them elsewhere."""

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
        return self._leadership is not None and self._leadership.leader == self._broker_id

    @property
    def last_stable_offset(self) -> Offset:
        """Exclusive bound below which every transaction is decided."""
        return self.log.last_stable_offset(self.high_watermark)

    # Roles.

    def become_leader(self, leadership: Leadership) -> list[PartitionEvent]:
        """Take over at `leadership.leader_epoch`; an older partition epoch than the known one is ignored.

        The epoch's start is written to the epoch cache at once, with no record yet, so that followers holding garbage of a later epoch are
        told where to cut (KAFKA-7415). A leader never truncates itself.
        """
        known = self._leadership
        if known is not None and leadership.partition_epoch < known.partition_epoch:
            return []
        invariant(leadership.leader == self._broker_id, "a replica leads only under its own name")
        is_new_epoch = known is None or leadership.leader_epoch > known.leader_epoch
        if is_new_epoch:
            self.log.assign_leader_epoch(leadership.leader_epoch)
            self._epoch_start_offset = self.log.log_end_offset
        self._leadership = leadership
        events: list[PartitionEvent] = [LeadershipChanged(leadership.leader_epoch)] if is_new_epoch else []
        return events + self._consequences()

    def reconfigure(self, config: LogConfig) -> None:
        """Apply changed topic settings."""
        self.log.reconfigure(config)
        self.rules = TopicRules(config)

    def step_down(self) -> None:
        """Lead no longer, because the topic is deleted; whoever waits here is told to look for another leader."""
        self._leadership = None

    def go_offline(self) -> None:
        """The disk under this replica has failed: answer everybody with a storage error from now on."""
        self._is_offline = True

    # Writing.

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        acks: Acks,
        produce_version: int,
        now_ms: TimestampMs,
        validated: Validated | None = None,
    ) -> tuple[Appended, list[PartitionEvent]]:
        """Validate one produced batch, unless that is done, and append it. Raises ApiError; nothing is written then."""
        leadership = self._require_leadership(NO_LEADER_EPOCH)
        if acks is Acks.ALL and len(leadership.isr) < self._min_isr(leadership):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"in-sync replicas: {list(leadership.isr)}")
        if validated is None:
            validated = validate_produced(batch, self.rules.for_version(produce_version), now_ms)
        appended = self.log.append_as_leader(
            validated.batch, leader_epoch=leadership.leader_epoch, now_ms=now_ms, header=validated.header
        )
        events: list[PartitionEvent] = [] if appended.is_duplicate else [LogEndAdvanced(self.log.log_end_offset)]
        return appended, events + self._consequences()

    def on_flushed(self, flush: Flush) -> list[PartitionEvent]:
        """An fsync came back: what it covered now counts as held by this replica."""
        self.log.on_flushed(flush)
        # A flush that found no space is not asked for again at once; the shell's timer does that.
        return self._consequences() if flush.is_performed else []

    def is_settled(self, next_offset: Offset, acks: Acks) -> bool:
        """Whether everything below `next_offset` may be acknowledged at this level."""
        return (self.high_watermark if acks is Acks.ALL else self.log.settled_end_offset) >= next_offset

    def check_still_leader(self, leader_epoch: LeaderEpoch) -> None:
        """A request parked under `leader_epoch` may go on waiting. Raises ApiError once that reign is over."""
        if self._require_leadership(NO_LEADER_EPOCH).leader_epoch != leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Reading.

    def read(
        self,
        offset: Offset,
        *,
        max_bytes: int,
        isolation: IsolationLevel,
        current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        at_least_one: bool = True,
    ) -> PartitionRead:
        """Committed records from the batch that holds `offset`. Raises ApiError for a wrong epoch, role or offset."""
        self._require_leadership(current_leader_epoch)
        high_watermark = self.high_watermark
        last_stable_offset = self.last_stable_offset
        bound = last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else high_watermark
        records = self.log.read(offset, max_bytes=max_bytes, end_offset=bound, at_least_one=at_least_one)
        aborted = None
        if isolation is IsolationLevel.READ_COMMITTED:
            aborted = tuple(self.log.aborted_transactions(offset, bound, read_bytes=len(records))) if records else ()
        return PartitionRead(
            records=records,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=self.log.log_start_offset,
            aborted_transactions=aborted,
        )

    def available_bytes(self, offset: Offset, isolation: IsolationLevel) -> int:
        """How much a reader at `offset` would get if nothing limited it; 0 where it would get an error."""
        end_offset = self.bound(isolation)
        if not self.log.log_start_offset <= offset < end_offset:
            return 0
        try:
            return bytes_between(self.log.segments, offset, end_offset)
        except CorruptBatch:
            return 0

    def bound(self, isolation: IsolationLevel) -> Offset:
        """Exclusive end of what a reader of this isolation level may see."""
        return self.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else self.high_watermark

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached what the log held at the election.

        Before that, records that an earlier leader committed may lie above it, and "the end" would be a step back (KIP-207).
        """
        return self.high_watermark >= self._epoch_start_offset

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch) -> Leadership:
        """Fence a reader that knows another epoch (KIP-320). Raises ApiError; returns the leadership it may rely on."""
        return self._require_leadership(current_leader_epoch)

    # Inside.

    def _require_leadership(self, current_leader_epoch: LeaderEpoch) -> Leadership:
        leadership = self._leadership
        if self._is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this replica has failed")
        if leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != leadership.leader_epoch:
            is_behind = current_leader_epoch < leadership.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if is_behind else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if leadership.leader != self._broker_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return leadership

    def _min_isr(self, leadership: Leadership) -> int:
        return min(self.log.config.min_insync_replicas, len(leadership.assignment))

    def _consequences(self) -> list[PartitionEvent]:
        """What any change of the log may call for."""
        events: list[PartitionEvent] = []
        if self.log.is_flush_wanted:
            events.append(FlushWanted())
        if self._maybe_advance_high_watermark():
            events.append(HighWatermarkAdvanced(self.high_watermark))
        return events

    def _maybe_advance_high_watermark(self) -> bool:
        candidate = self.log.settled_end_offset
        if candidate <= self.high_watermark or not self.is_leader:
            return False
        self.high_watermark = candidate
        return True

"""One replica of one partition: its role, its epochs, its high watermark.

What it does as leader is in `leading`, as follower in `following`; here it changes between the two and serves consumers as either.
"""

from __future__ import annotations

from tidelog.config import LogConfig
from tidelog.config.replication import HIGH_WATERMARK
from tidelog.model import NO_LEADER_EPOCH, BrokerId, IsolationLevel, LeaderEpoch, Offset, TimestampMs, invariant
from tidelog.partition.events import FlushWanted, LeadershipChanged, PartitionEvent
from tidelog.partition.following import FollowingReplica
from tidelog.partition.leading import LeadingReplica
from tidelog.partition.remote_replica import RemoteReplica
from tidelog.partition.rules import TopicRules
from tidelog.partition.values import Leadership, PartitionRead
from tidelog.records import CorruptBatch
from tidelog.storage import Flush
from tidelog.storage.span import bytes_between


class Partition(LeadingReplica, FollowingReplica):
    """State machine of one replica. Methods that change state return the events their change calls for."""

    # Roles.

    def become_leader(self, leadership: Leadership, *, monotonic_ms: float = 0.0) -> list[PartitionEvent]:
        """Take over at `leadership.leader_epoch`; an older partition epoch than the known one is ignored.

        So is a leader epoch below one that the log knows: it is over, and records written in it now would share their epoch and offset with
        others (I5). The epoch's start is written to the epoch cache at once, with no record yet, so that followers holding garbage of a
        later epoch are told where to cut (KAFKA-7415). A leader never truncates itself.
        """
        known = self._leadership
        if known is not None and leadership.partition_epoch < known.partition_epoch:
            return []
        if leadership.leader_epoch < self.log.latest_leader_epoch:
            return []
        invariant(leadership.leader == self.broker_id, "a replica leads only under its own name")
        self._note_time(monotonic_ms)
        was_leader = self.is_leader
        is_new_epoch = known is None or leadership.leader_epoch > known.leader_epoch
        is_news = is_new_epoch or known is None or leadership.partition_epoch > known.partition_epoch
        if is_new_epoch:
            self.log.assign_leader_epoch(leadership.leader_epoch)
            self._epoch_start_offset = self.log.log_end_offset
        if not was_leader:
            self.reign += 1
            self.log.verification.clear()
        # An epoch that we did not see may have had another leader, who may have had followers cut what we knew them to hold.
        is_still_led = was_leader and known is not None and leadership.leader_epoch == known.leader_epoch + 1
        self._leadership = leadership
        self._meet(leadership, is_new_epoch=is_new_epoch, is_still_led=is_still_led)
        if is_news:  # The same state told twice says nothing about a change of ISR that is under way.
            self._isr.commit(leadership.isr)
        self._recount()
        events: list[PartitionEvent] = []
        if is_new_epoch:
            events.append(LeadershipChanged(leadership.leader_epoch, is_leader=True))
        return events + self._consequences()

    def become_follower(self, leadership: Leadership, *, now_ms: TimestampMs) -> list[PartitionEvent]:
        """Follow `leadership.leader`, who may be nobody; an older partition epoch than the known one is ignored.

        Whoever waits here looks again at every new leader epoch, even of the same leader. The log is left as it is: what of it is not the
        leader's shows at the first fetch. Only the lab's `high-watermark` truncation cuts it here, and loses records by it.
        """
        known = self._leadership
        if known is not None and leadership.partition_epoch < known.partition_epoch:
            return []
        invariant(leadership.leader != self.broker_id, "a replica does not follow itself")
        is_new = known is None or leadership.leader_epoch > known.leader_epoch or self.is_leader
        self._leadership = leadership
        self.log.verification.clear()
        self._forget_followers()
        if not is_new:
            return []
        events: list[PartitionEvent] = []
        if self._replication.truncation == HIGH_WATERMARK and not self._is_offline:
            before = self.log.log_end_offset
            self.log.truncate_to(self.high_watermark, now_ms=now_ms)
            events = self._after_cut(before)
        elif self.log.is_flush_wanted:  # What a crash has left unflushed must be flushed before the first fetch.
            events = [FlushWanted()]
        return [*events, LeadershipChanged(leadership.leader_epoch, is_leader=False)]

    def reconfigure(self, config: LogConfig) -> list[PartitionEvent]:
        """Apply changed topic settings."""
        self.log.reconfigure(config)
        self.rules = TopicRules(config)
        self._recount()
        return self._consequences()

    def step_down(self) -> None:
        """Have no role any more, because the replica goes; whoever waits here is told to look for another leader."""
        self._leadership = None
        self.log.verification.clear()
        self._forget_followers()

    def go_offline(self) -> None:
        """The disk under this replica has failed: answer everybody with a storage error from now on."""
        self._is_offline = True

    def on_flushed(self, flush: Flush) -> list[PartitionEvent]:
        """An fsync came back: what it covered now counts as held by this replica."""
        self.log.on_flushed(flush)
        # A flush that found no space is not asked for again at once; the shell's timer does that.
        return self._consequences() if flush.is_performed else []

    # Reading.

    def read(
        self,
        offset: Offset,
        *,
        max_bytes: int,
        isolation: IsolationLevel,
        current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        at_least_one: bool = True,
        may_follow: bool = False,
    ) -> PartitionRead:
        """Committed records from the batch that holds `offset`. Raises ApiError for a wrong epoch, role or offset.

        A follower serves readers who `may_follow` (KIP-392), as far as it knows records to be committed.
        """
        self._require_role(current_leader_epoch, may_follow=may_follow)
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

    # Inside.

    def _meet(self, leadership: Leadership, *, is_new_epoch: bool, is_still_led: bool) -> None:
        """Keep one memory per follower: all of them begin anew with an epoch, and newcomers whenever they come."""
        remotes: dict[BrokerId, RemoteReplica] = {}
        for broker_id in leadership.assignment:
            if broker_id == self.broker_id:
                continue
            remote = self._remotes.get(broker_id)
            if remote is None or is_new_epoch:
                remote = remote or RemoteReplica(broker_id)
                remote.restart(
                    is_in_sync=broker_id in leadership.isr,
                    epoch_start_offset=self._epoch_start_offset,
                    is_still_led=is_still_led,
                    monotonic_ms=self._monotonic_ms,
                )
            remotes[broker_id] = remote
        self._remotes = remotes

    def _forget_followers(self) -> None:
        self._remotes = {}
        self._isr.commit(())
        self._recount()

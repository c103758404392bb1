"""A replica as leader: it answers its followers, and decides what is committed and who is in sync. How it takes writes is in `writing`."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    ApiError,
    BrokerId,
    ErrorCode,
    LeaderEpoch,
    Offset,
)
from tidelog.partition.events import (
    IsrChangeWanted,
    LowWatermarkAdvanced,
    PartitionEvent,
)
from tidelog.partition.isr import Refusal, verdict
from tidelog.partition.remote_replica import RemoteReplica
from tidelog.partition.values import FollowerFetch, FollowerRead, IsrProposal, Leadership
from tidelog.partition.watermark import lowest_start
from tidelog.partition.writing import WritingReplica
from tidelog.records import CorruptBatch
from tidelog.storage import EpochEndOffset
from tidelog.storage.span import bytes_between


class LeadingReplica(WritingReplica):
    """The leader's side of a replica."""

    # Followers.

    def read_for_follower(
        self,
        fetch: FollowerFetch,
        *,
        max_bytes: int,
        at_least_one: bool,
        monotonic_ms: float,
        is_again: bool = False,
    ) -> tuple[FollowerRead, list[PartitionEvent]]:
        """Records up to the log end, or where the logs part. Raises ApiError for a wrong epoch, role, replica or offset.

        A fetch counts once, and only if its log is a prefix of ours: one that is read again after waiting (`is_again`) touches nothing.
        """
        remote = self._require_follower(fetch)
        log = self.log
        high_watermark, log_start_offset = self.high_watermark, log.log_start_offset
        last_stable_offset = self.last_stable_offset
        diverging = self._divergence(fetch)
        records = b""
        events: list[PartitionEvent] = []
        if diverging is None:
            records = log.read(
                fetch.fetch_offset,
                max_bytes=max_bytes,
                end_offset=log.log_end_offset,
                at_least_one=at_least_one,
                # A follower that asks for the same again may have had it before, and refused it.
                is_doubted=not is_again and fetch.fetch_offset == remote.log_end_offset,
            )
            if not is_again:
                events = self._count(remote, fetch, monotonic_ms)
        read = FollowerRead(
            records=records,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            diverging=diverging,
        )
        return read, events

    def available_to_follower(self, fetch: FollowerFetch) -> int:
        """How many bytes a follower would get if nothing limited it; -1 if it must cut its log first. Raises ApiError as a read would."""
        self._require_follower(fetch)
        if self._divergence(fetch) is not None:
            return -1
        log, offset = self.log, fetch.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset == log.log_end_offset:
            return 0
        try:
            return bytes_between(log.segments, offset, log.log_end_offset)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def preferred_replica(
        self, *, offset: Offset, client_rack: str | None, racks: Mapping[BrokerId, str | None]
    ) -> BrokerId | None:
        """Who in the consumer's rack should serve it from `offset` on; None: nobody better than the leader (KIP-392)."""
        if not client_rack or not self._remotes or racks.get(self.broker_id) == client_rack:
            return None
        near = [
            remote
            for remote in self._remotes.values()
            if racks.get(remote.broker_id) == client_rack
            and remote.broker_id in self._isr.committed
            and 0 <= remote.log_start_offset <= offset <= remote.log_end_offset
            and self._is_eligible(remote.broker_id)
        ]
        if not near:
            return None
        return max(near, key=lambda each: (each.log_end_offset, each.last_caught_up_ms, each.broker_id)).broker_id

    @property
    def low_watermark(self) -> Offset:
        """Below it no live replica holds a readable record any more; -1 while one of them has not fetched."""
        return lowest_start(self.log.log_start_offset, self._remotes.values(), self._is_eligible)

    # Who is in sync.

    def check_isr(self, monotonic_ms: float) -> list[PartitionEvent]:
        """Time has passed: followers that have not caught up for too long leave the ISR, or no longer hold the high watermark back."""
        self._note_time(monotonic_ms)
        leadership = self._leadership
        if leadership is None or not self.is_leader or self._is_offline:
            return []
        late = () if self._isr.pending is not None else tuple(filter(self._is_late, self._isr.committed))
        if late:
            return [self._propose(leadership, tuple(each for each in self._isr.committed if each not in late))]
        return self._newly_committed()

    def on_isr_committed(
        self, isr: tuple[BrokerId, ...], partition_epoch: int, leader_epoch: LeaderEpoch, monotonic_ms: float = 0.0
    ) -> list[PartitionEvent]:
        """The registry holds this ISR. An answer for another leader epoch, or one that is no news, is dropped."""
        self._note_time(monotonic_ms)
        known = self._leadership
        if known is None or not self.is_leader or known.leader_epoch != leader_epoch:
            return []
        if partition_epoch <= known.partition_epoch:
            return []
        self._leadership = Leadership(
            leader=known.leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=isr,
            assignment=known.assignment,
            adding=known.adding,
            removing=known.removing,
        )
        self._isr.commit(isr)
        self._recount()
        return self._newly_committed()

    def on_isr_refused(
        self, code: ErrorCode, monotonic_ms: float = 0.0, *, proposal: IsrProposal | None = None
    ) -> list[PartitionEvent]:
        """The change under way was not committed, or nobody could be asked. Naming the `proposal` drops an answer to an earlier one.

        Wants the same again where nothing was decided; the shell sees to it that this does not happen too often.
        """
        self._note_time(monotonic_ms)
        pending = self._isr.pending
        if pending is None or proposal not in {None, pending}:
            return []
        match verdict(code):
            case Refusal.RETRY:
                return [IsrChangeWanted(pending)]
            case Refusal.ROLL_BACK:
                self._isr.roll_back()
                return self._newly_committed()
            case Refusal.WAIT:
                return []

    # Inside.

    def _require_follower(self, fetch: FollowerFetch) -> RemoteReplica:
        self._require_role(fetch.current_leader_epoch)
        remote = self._remotes.get(fetch.replica_id)
        if remote is None:
            is_epoch_known = fetch.current_leader_epoch != NO_LEADER_EPOCH
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise ApiError(code, f"broker {fetch.replica_id} is not one of the replicas")
        return remote

    def _divergence(self, fetch: FollowerFetch) -> EpochEndOffset | None:
        """Where a follower must look for agreement if its log is not a prefix of ours (KIP-595).

        Raises ApiError OFFSET_OUT_OF_RANGE before that where we no longer have what it would need then (R10).
        """
        last_fetched_epoch = fetch.last_fetched_epoch
        if last_fetched_epoch < 0:
            return None
        end = self.log.end_offset_for_epoch(last_fetched_epoch)
        if end.leader_epoch < 0 or end.end_offset < 0 or fetch.fetch_offset < self.log.log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {fetch.fetch_offset} of epoch {last_fetched_epoch} is before {self.log.log_start_offset} or of no known epoch",
            )
        is_parted = end.leader_epoch < last_fetched_epoch or end.end_offset < fetch.fetch_offset
        return end if is_parted else None

    def _count(self, remote: RemoteReplica, fetch: FollowerFetch, monotonic_ms: float) -> list[PartitionEvent]:
        """The follower holds everything below its fetch offset: what follows from that."""
        remote.check_incarnation(fetch.broker_epoch)
        self._note_time(monotonic_ms)
        end_before, start_before = remote.log_end_offset, remote.log_start_offset
        low_before = self.low_watermark if fetch.log_start_offset != start_before else None
        remote.on_fetch(
            fetch_offset=fetch.fetch_offset,
            log_start_offset=fetch.log_start_offset,
            broker_epoch=fetch.broker_epoch,
            leader_end_offset=self.log.log_end_offset,
            monotonic_ms=monotonic_ms,
        )
        events: list[PartitionEvent] = []
        leadership = self._leadership
        if leadership is not None and self._may_join(remote):
            events.append(self._propose(leadership, (*self._isr.committed, remote.broker_id)))
        if remote.log_end_offset != end_before:
            events += self._newly_committed()
        if low_before is not None and self.low_watermark > low_before:
            events.append(LowWatermarkAdvanced(self.low_watermark))
        return events

    def _may_join(self, remote: RemoteReplica) -> bool:
        """It must hold all that is committed: the high watermark may not say all of that before the epoch's start is reached (R12)."""
        return (
            remote.broker_id not in self._isr.committed
            and self._isr.pending is None
            and remote.log_end_offset >= self.high_watermark
            and remote.log_end_offset >= self._epoch_start_offset
            and self._is_eligible(remote.broker_id)
        )

    def _is_late(self, broker_id: BrokerId) -> bool:
        remote = self._remotes.get(broker_id)
        return remote is not None and not remote.is_caught_up(
            self.log.log_end_offset, self._monotonic_ms, self._replication.lag_time_max_ms
        )

    def _propose(self, leadership: Leadership, isr: tuple[BrokerId, ...]) -> IsrChangeWanted:
        proposal = IsrProposal(
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
            isr=tuple((broker_id, self._broker_epoch_of(broker_id)) for broker_id in isr),
        )
        self._isr.propose(proposal)
        return IsrChangeWanted(proposal)

    def _broker_epoch_of(self, broker_id: BrokerId) -> int:
        remote = self._remotes.get(broker_id)
        return NO_BROKER_EPOCH if remote is None else remote.broker_epoch

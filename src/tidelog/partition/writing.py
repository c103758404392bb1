"""A replica that takes writes: of clients, of the coordinators on this broker, and what coordinators anywhere say of transactions."""

from __future__ import annotations

from tidelog.model import NO_LEADER_EPOCH, Acks, ApiError, ErrorCode, Offset, ProducerIdentity, TimestampMs
from tidelog.partition.events import LogEndAdvanced, PartitionEvent
from tidelog.partition.replica_state import ReplicaState
from tidelog.partition.values import Leadership
from tidelog.records import Validated, validate_produced
from tidelog.storage import Appended, Guard, Origin


class WritingReplica(ReplicaState):
    """What a leader does with what it is given to append. Methods that append raise ApiError, and nothing is written then."""

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        *,
        acks: Acks,
        produce_version: int,
        now_ms: TimestampMs,
        validated: Validated | None = None,
        guard: Guard | None = None,
    ) -> tuple[Appended, list[PartitionEvent]]:
        """Validate one produced batch, unless that is done, and append it; the first of a transaction with the guard it was verified with."""
        leadership = self._require_writable(acks)
        if validated is None:
            validated = validate_produced(batch, self.rules.for_version(produce_version), now_ms)
        appended = self.log.append_as_leader(
            validated.batch,
            leader_epoch=leadership.leader_epoch,
            now_ms=now_ms,
            header=validated.header,
            guard=guard,
        )
        return self._appended(appended)

    def append_own(self, validated: Validated, *, now_ms: TimestampMs) -> tuple[Appended, list[PartitionEvent]]:
        """Append a batch of the coordinator that keeps its state here, with acks=all. In a producer's name its sequence is not looked at."""
        leadership = self._require_writable(Acks.ALL)
        appended = self.log.append_as_leader(
            validated.batch,
            leader_epoch=leadership.leader_epoch,
            now_ms=now_ms,
            origin=Origin.COORDINATOR,
            header=validated.header,
        )
        return self._appended(appended)

    def append_marker(
        self, marker: bytearray, *, now_ms: TimestampMs, has_own_epoch: bool
    ) -> tuple[Appended, list[PartitionEvent]]:
        """Write down how a transaction ended, with acks=all; see `AppendableLog.append_marker`."""
        leadership = self._require_writable(Acks.ALL)
        appended = self.log.append_marker(
            marker, leader_epoch=leadership.leader_epoch, now_ms=now_ms, has_own_epoch=has_own_epoch
        )
        return self._appended(appended)

    def begin_verification(self, producer: ProducerIdentity, *, sequence: int, has_own_epoch: bool) -> Guard | None:
        """A guard to ask the coordinator of a transaction with, to be released on `log.verification`; None where nobody need be asked.

        Raises ApiError if this replica does not lead.
        """
        self._require_role(NO_LEADER_EPOCH)
        log = self.log
        known = log.producers.get(producer.producer_id)
        return log.verification.begin(known, producer, sequence=sequence, has_own_epoch=has_own_epoch)

    def is_settled(self, next_offset: Offset, acks: Acks) -> bool:
        """Whether everything below `next_offset` may be acknowledged at this level.

        Raises ApiError where acks=all was reached by fewer replicas than min.insync.replicas asks for: the records are there and stay.
        """
        if acks is not Acks.ALL:
            return self.log.settled_end_offset >= next_offset
        if self.high_watermark < next_offset:
            return False
        if len(self._isr.maximal) < self.min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"in-sync replicas: {list(self._isr.committed)}")
        return True

    def check_reign(self, reign: int) -> None:
        """A request parked during `reign` may go on waiting. Raises ApiError once that is over (R22).

        An epoch that the same leader begins anew disturbs nobody: its log has not been cut.
        """
        self._require_role(NO_LEADER_EPOCH)
        if self.reign != reign:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Inside.

    def _require_writable(self, acks: Acks) -> Leadership:
        leadership = self._require_role(NO_LEADER_EPOCH)
        if acks is Acks.ALL and not self._may_commit:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"in-sync replicas: {list(self._isr.committed)}")
        return leadership

    def _appended(self, appended: Appended) -> tuple[Appended, list[PartitionEvent]]:
        events: list[PartitionEvent] = [] if appended.is_duplicate else [LogEndAdvanced(self.log.log_end_offset)]
        return appended, events + self._consequences()

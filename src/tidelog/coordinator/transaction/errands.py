"""What the machine wants done elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.coordinator.transaction.requests import MarkersWrittenRequest
from tidelog.model import ProducerIdentity, TimestampMs, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """Tell the leaders of all partitions how a transaction ended, however often it takes; then ask `written()`.

    Given out again after a change of leadership, so a partition may hear it twice.
    """

    transactional_id: str
    producer: ProducerIdentity
    is_committed: bool
    partitions: tuple[TopicPartition, ...]
    has_own_epoch: bool
    """Whether the epoch is one that nothing of the transaction was written under (version 2)."""
    decided_ms: TimestampMs
    """Tells the decision from an earlier one under the same epoch (version 1)."""

    def written(self, refused: tuple[TopicPartition, ...] = ()) -> MarkersWrittenRequest:
        """What to ask the machine when all of them know, but for those that will hear nothing of this producer epoch any more."""
        return MarkersWrittenRequest(
            transactional_id=self.transactional_id,
            producer=self.producer,
            decided_ms=self.decided_ms,
            refused=refused,
        )

"""The batches that say how transactions ended. One ends in many partitions at a time, so the last batch is kept for the next of them."""

from __future__ import annotations

from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import TimestampMs
from tidelog.records.control import MarkerType, build_marker


class MarkerBatches:
    """Builds markers, and copies the one that it has just built where the same is wanted once more."""

    def __init__(self) -> None:
        self._end: TransactionEnd | None = None
        self._now_ms: TimestampMs = -1
        self._batch = bytearray()

    def build(self, end: TransactionEnd, now_ms: TimestampMs) -> bytearray:
        """A marker of the caller's own: each log stamps its offset and leader epoch into it."""
        if end != self._end or now_ms != self._now_ms:
            self._end, self._now_ms = end, now_ms
            self._batch = build_marker(
                MarkerType.COMMIT if end.is_committed else MarkerType.ABORT,
                producer_id=end.producer.producer_id,
                producer_epoch=end.producer.producer_epoch,
                coordinator_epoch=end.coordinator_epoch,
                timestamp_ms=now_ms,
            )
        return bytearray(self._batch)

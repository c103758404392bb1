"""What a coordinator needs of the partition it keeps its state in. The broker implements it over a replica that it leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.model import Offset, ProducerIdentity, TimestampMs


class TransactionEnd(NamedTuple):
    """What the coordinator of a transaction has decided, for the leader of one of its partitions to write down as a marker."""

    producer: ProducerIdentity
    is_committed: bool
    coordinator_epoch: int
    has_own_epoch: bool = False
    """Whether each transaction of the producer has an epoch of its own, so that the marker's must be a new one (KIP-1228)."""


class InternalLog(Protocol):
    """A partition of an internal topic for as long as this broker leads it without a break. Never waits."""

    @property
    def start_offset(self) -> Offset:
        """The first offset there is."""
        ...

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""
        ...

    @property
    def committed_offset(self) -> Offset:
        """Below it nothing can be lost any more; -1 once the leadership is over, so that nobody is told anything after it."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """How large a batch may be, with its header and as it is written."""
        ...

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        now_ms: TimestampMs,
        producer: ProducerIdentity | None = None,
    ) -> Offset:
        """Write all records as one batch, or none; the offset of the first. Raises ApiError.

        In the name of a producer they are part of its transaction.
        """
        ...

    def append_marker(self, end: TransactionEnd, *, now_ms: TimestampMs) -> Offset:
        """Write down how a transaction ended; the offset of the marker. Raises ApiError."""
        ...

    def read(self, offset: Offset, *, max_bytes: int) -> bytes:
        """Batches from the one that holds `offset` on, up to the end, committed or not. The last may be cut short, the first not.

        Empty if there is none up to the end: compaction takes batches away, the last ones too.
        Raises ApiError: the leadership is over, the disk failed, the offset is gone, the batch is not what was written.
        """
        ...

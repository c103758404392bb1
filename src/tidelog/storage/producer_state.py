"""What a log remembers of every idempotent and transactional producer: sequences, epochs, open transactions (KIP-98, KIP-360).

The state is a function of the log: `check` decides about a batch without changing anything, `apply` notes a batch that is already written.
So a failed write leaves no trace, and a replay of the log gives the same state on every replica.
"""

from __future__ import annotations

import enum
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.model import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    ApiError,
    ErrorCode,
    Offset,
    ProducerId,
    TimestampMs,
)
from tidelog.records.batch import BatchHeader, sequence_after
from tidelog.records.control import Marker, MarkerType
from tidelog.storage.producer_snapshot import NO_TRANSACTION, SnapshotEntry

CACHED_BATCHES_MAX: Final = 5
"""As many batches as an idempotent client may have in flight on one connection."""


class Origin(enum.Enum):
    """Who asks for an append, which decides how much of the producer's state is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class CachedBatch(NamedTuple):
    """Enough of a recent batch to recognise its retry and repeat its answer."""

    base_sequence: int
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: TimestampMs

    @property
    def base_offset(self) -> Offset:
        """Where the batch begins in the log."""
        return self.last_offset - self.offset_delta


class FinishedTransaction(NamedTuple):
    """A transaction with records that its marker at `last_offset` decided."""

    first_offset: Offset
    last_offset: Offset
    producer_id: ProducerId
    is_aborted: bool


@dataclass(slots=True)
class ProducerState:
    """One producer on one partition."""

    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int = -1
    last_timestamp_ms: TimestampMs = -1
    transaction_first_offset: Offset = NO_TRANSACTION
    batches: deque[CachedBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES_MAX))
    # A snapshot holds the newest batch only, though several may be under way: a retry of another would seem to be out of order.
    is_forgetful: bool = False

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record in the current epoch; -1 while there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """Offset of the newest record in the current epoch; -1 while there is none."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        """Whether records were written in a transaction that no marker has ended."""
        return self.transaction_first_offset != NO_TRANSACTION

    def is_in_transaction(self, producer_epoch: int) -> bool:
        """Whether that transaction is the one of this epoch."""
        return self.transaction_first_offset != NO_TRANSACTION and self.producer_epoch == producer_epoch

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """The remembered batch of which this one is a retry."""
        if header.producer_epoch != self.producer_epoch:
            return None
        base, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.base_sequence == base:
                return batch
        return None

    def enter_epoch(self, producer_epoch: int) -> None:
        """A change of epoch begins sequences anew."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
            self.is_forgetful = False

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Remember batches before the oldest that is known, as far as they are among `headers`, which come newest first."""
        self.is_forgetful = False
        for header in headers:
            oldest = self.batches[0]
            if oldest.base_sequence == 0 or len(self.batches) == CACHED_BATCHES_MAX:
                return
            if header.producer_id != self.producer_id or header.is_control:
                continue
            is_next = sequence_after(header.last_sequence) == oldest.base_sequence
            if header.producer_epoch != self.producer_epoch or not is_next:
                return
            self.batches.appendleft(_cached(header))


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_ongoing", "_producers", "_undecided")

    def __init__(self, entries: Sequence[SnapshotEntry] = ()) -> None:
        self._producers: dict[ProducerId, ProducerState] = {}
        # First offset -> producer id, in the order of the offsets: transactions begin in the order of the log.
        self._ongoing: dict[Offset, ProducerId] = {}
        # Finished transactions whose marker the high watermark has not passed yet, ordered by first offset.
        self._undecided: list[FinishedTransaction] = []
        for entry in entries:
            self._producers[entry.producer_id] = _from_snapshot(entry)
        for entry in sorted(entries, key=lambda entry: entry.transaction_first_offset):
            if entry.transaction_first_offset != NO_TRANSACTION:
                self._ongoing[entry.transaction_first_offset] = entry.producer_id

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def get(self, producer_id: ProducerId) -> ProducerState | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader, marker: Marker | None, origin: Origin) -> None:
        """Whether a leader may append a batch that is no retry of one that it knows. Raises ApiError."""
        known = self._producers.get(header.producer_id)
        if known is None:
            return
        _check_epoch(known, header)
        if marker is not None:
            _check_coordinator(known, marker)
            return
        if origin is Origin.CLIENT:
            _check_sequence(known, header)
        _check_transaction(known, header)

    def is_ended(self, header: BatchHeader) -> bool:
        """Whether the transaction that a marker with an epoch of its own is to end has been ended by it. Raises ApiError if it is too late.

        Epochs of a log only grow, so nothing of that transaction can come any more.
        """
        known = self._producers.get(header.producer_id)
        if known is None or header.producer_epoch != known.producer_epoch:
            return False
        if known.has_open_transaction:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} writes another transaction at epoch {known.producer_epoch}",
            )
        return True

    def apply(self, header: BatchHeader, marker: Marker | None) -> FinishedTransaction | None:
        """Note a batch that is in the log; a marker that ends a transaction with records gives back that transaction."""
        if header.producer_id < 0 or (header.is_control and (marker is None or marker.type is MarkerType.UNKNOWN)):
            return None
        known = self._producers.get(header.producer_id)
        if known is None:
            known = self._producers[header.producer_id] = ProducerState(header.producer_id, NO_PRODUCER_EPOCH)
        if marker is not None:
            return self._apply_marker(known, header, marker)
        self._apply_data(known, header)
        return None

    def _apply_data(self, known: ProducerState, header: BatchHeader) -> None:
        known.enter_epoch(header.producer_epoch)
        known.batches.append(_cached(header))
        known.last_timestamp_ms = header.max_timestamp
        if header.is_transactional and not known.has_open_transaction:
            known.transaction_first_offset = header.base_offset
            self._ongoing[header.base_offset] = header.producer_id

    def _apply_marker(self, known: ProducerState, header: BatchHeader, marker: Marker) -> FinishedTransaction | None:
        first_offset = known.transaction_first_offset
        known.enter_epoch(header.producer_epoch)
        known.coordinator_epoch = marker.coordinator_epoch
        known.last_timestamp_ms = header.max_timestamp
        known.transaction_first_offset = NO_TRANSACTION
        if first_offset == NO_TRANSACTION:
            return None
        self._ongoing.pop(first_offset, None)
        finished = FinishedTransaction(
            first_offset, header.last_offset, header.producer_id, marker.type is MarkerType.ABORT
        )
        insort(self._undecided, finished)
        return finished

    def stable_offset_after(self, finished: FinishedTransaction) -> Offset:
        """The last stable offset once the marker of `finished` counts, as the transaction index stores it."""
        return next(iter(self._ongoing), finished.last_offset + 1)

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """The first record of a transaction that is open, or whose marker is not below the high watermark yet."""
        undecided = self._undecided
        if undecided:
            # The high watermark of a replica falls only in a truncation, which rebuilds this state: what it has passed can be forgotten.
            self._undecided = undecided = [done for done in undecided if done.last_offset >= high_watermark]
        ongoing = next(iter(self._ongoing), None)
        if not undecided:
            return ongoing
        first = undecided[0].first_offset
        return first if ongoing is None else min(first, ongoing)

    def first_ongoing_offset(self) -> Offset | None:
        """The first record of the oldest open transaction."""
        return next(iter(self._ongoing), None)

    def expire(self, now_ms: TimestampMs, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long and have no open transaction; how many went."""
        expired = [
            known.producer_id
            for known in self._producers.values()
            if not known.has_open_transaction and now_ms - known.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def forgetful_about(self, header: BatchHeader) -> ProducerState | None:
        """The producer, if this may be the retry of a batch that was not its newest when a snapshot was made."""
        known = self._producers.get(header.producer_id)
        if known is None or not known.is_forgetful or header.producer_epoch != known.producer_epoch:
            return None
        return None if header.base_sequence == sequence_after(known.last_sequence) else known

    def to_snapshot(self) -> list[SnapshotEntry]:
        """What goes into the snapshot file."""
        return [_to_snapshot(known) for known in self._producers.values()]


def _cached(header: BatchHeader) -> CachedBatch:
    return CachedBatch(
        header.base_sequence,
        header.last_sequence,
        header.base_offset + header.last_offset_delta,
        header.last_offset_delta,
        header.max_timestamp,
    )


def _check_epoch(known: ProducerState, header: BatchHeader) -> None:
    if header.producer_epoch < known.producer_epoch:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} is at epoch {known.producer_epoch}, the batch at {header.producer_epoch}",
        )


def _check_transaction(known: ProducerState, header: BatchHeader) -> None:
    """What is open is ended by a marker before anything else of its producer is written.

    A later epoch than that of the transaction has not waited for its marker, or the log has lost it in a power cut. Its batch would become
    part of the former transaction, and the next marker would commit records of which nobody knows how they were decided. Whoever is refused
    aborts, and the marker of that ends the former one, too.
    """
    if known.has_open_transaction and not header.is_transactional:
        raise ApiError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has an open transaction and sent a batch outside of it",
        )
    if known.has_open_transaction and not known.is_in_transaction(header.producer_epoch):
        raise ApiError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has an open transaction at epoch {known.producer_epoch}",
        )


def _check_coordinator(known: ProducerState, marker: Marker) -> None:
    if marker.coordinator_epoch < known.coordinator_epoch:
        raise ApiError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"coordinator epoch {marker.coordinator_epoch} is older than {known.coordinator_epoch}",
        )


def _check_sequence(known: ProducerState, header: BatchHeader) -> None:
    """A new epoch begins at 0; within one each batch continues where the last ended. A marker alone leaves the sequence at its beginning."""
    is_new_epoch = header.producer_epoch != known.producer_epoch
    last = NO_SEQUENCE if is_new_epoch else known.last_sequence
    expected = 0 if last == NO_SEQUENCE else sequence_after(last)
    if header.base_sequence != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected is {expected}",
        )


def _from_snapshot(entry: SnapshotEntry) -> ProducerState:
    known = ProducerState(
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.timestamp_ms,
        entry.transaction_first_offset,
    )
    if entry.last_offset >= 0:
        has_sequence = entry.last_sequence >= 0  # coordinators write offset commits without one
        base_sequence = sequence_after(entry.last_sequence, -entry.offset_delta) if has_sequence else NO_SEQUENCE
        known.batches.append(
            CachedBatch(base_sequence, entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms)
        )
        known.is_forgetful = base_sequence > 0
    return known


def _to_snapshot(known: ProducerState) -> SnapshotEntry:
    newest = known.batches[-1] if known.batches else None
    return SnapshotEntry(
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        last_sequence=NO_SEQUENCE if newest is None else newest.last_sequence,
        last_offset=NO_OFFSET if newest is None else newest.last_offset,
        offset_delta=0 if newest is None else newest.offset_delta,
        timestamp_ms=known.last_timestamp_ms,
        coordinator_epoch=known.coordinator_epoch,
        transaction_first_offset=known.transaction_first_offset,
    )

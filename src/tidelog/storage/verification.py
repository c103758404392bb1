"""Producers of whom a leader does not know yet whether the transaction they write in is open (KIP-890).

A transaction that nobody ends would keep readers waiting for ever, so the first batch of one is appended only after its coordinator has said
that this partition is part of it. Until the answer comes the producer has a guard, and the answer counts only while that very guard is
there: a marker takes it away, and a guard that is given out later is another one, however much else is the same (ABA).

Guards live in memory, on a leader. They also remember the lowest sequence that was asked about: while a batch has to be sent again because
its coordinator could not be asked, the one after it must not be the first to get in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.model import ApiError, ErrorCode, ProducerId, ProducerIdentity
from tidelog.records.batch import BatchHeader
from tidelog.storage.producer_state import ProducerState

IDLE_MAX: Final = 1_000
"""Guards that nobody waits with; those that somebody does are as few as requests under way."""

_SEQUENCE_MASK: Final = 2**31 - 1
_SEQUENCE_HALF: Final = 2**30


@dataclass(slots=True, eq=False)
class Guard:
    """One producer while it is asked about; no other guard is the same."""

    producer_id: ProducerId
    producer_epoch: int
    lowest_sequence: int
    has_own_epoch: bool
    """Whether each of its transactions has an epoch of its own, and so begins with sequence 0."""
    waiting_count: int = 0

    def meet(self, producer_epoch: int, sequence: int, *, has_own_epoch: bool) -> None:
        """Another batch of the same producer waits, too."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
            self.has_own_epoch = has_own_epoch
        elif producer_epoch == self.producer_epoch and _is_after(self.lowest_sequence, sequence):
            self.lowest_sequence = sequence


class Verification:
    """The guards of one log."""

    __slots__ = ("_guards", "_idle")

    def __init__(self) -> None:
        self._guards: dict[ProducerId, Guard] = {}
        self._idle: dict[ProducerId, None] = {}  # in the order in which they became so

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self, known: ProducerState | None, producer: ProducerIdentity, *, sequence: int, has_own_epoch: bool
    ) -> Guard | None:
        """A guard to ask the coordinator with; None where the transaction is open here, so that nobody need be asked.

        Every guard is given back to `release`, whatever becomes of the batch.
        """
        producer_id, producer_epoch = producer
        if known is not None and known.is_in_transaction(producer_epoch):
            return None
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = Guard(producer_id, producer_epoch, sequence, has_own_epoch)
        else:
            guard.meet(producer_epoch, sequence, has_own_epoch=has_own_epoch)
            self._idle.pop(producer_id, None)
        guard.waiting_count += 1
        return guard

    def release(self, guard: Guard, *, is_refused: bool = False) -> None:
        """A batch waits no more. If the coordinator has refused it for good, there is nothing to remember either."""
        guard.waiting_count -= 1
        if guard.waiting_count > 0 or not self.is_current(guard):
            return
        if is_refused:
            del self._guards[guard.producer_id]
            return
        self._idle[guard.producer_id] = None
        if len(self._idle) > IDLE_MAX:
            self.forget(next(iter(self._idle)))

    def is_current(self, guard: Guard | None) -> bool:
        """Whether what was asked with this guard still counts."""
        return guard is not None and self._guards.get(guard.producer_id) is guard

    def note(self, header: BatchHeader) -> None:
        """A batch of a transaction was written: one has begun here, or has ended, and what is being asked about it says nothing any more.

        Where each transaction has an epoch of its own, a marker bears the first that the next one may be written under. The producer need not
        wait for it, so the next one may be asked about already, and is not the one that ends here.
        """
        guard = self._guards.get(header.producer_id)
        if guard is None:
            return
        if header.is_control and guard.has_own_epoch and guard.producer_epoch >= header.producer_epoch:
            return
        self.forget(header.producer_id)

    def forget(self, producer_id: ProducerId) -> None:
        """What is being asked about a producer says nothing any more."""
        self._guards.pop(producer_id, None)
        self._idle.pop(producer_id, None)

    def clear(self) -> None:
        """The log is led by somebody else now, or anew."""
        self._guards.clear()
        self._idle.clear()

    def check(self, known: ProducerState | None, header: BatchHeader, guard: Guard | None) -> None:
        """Whether a transactional batch of a client may be looked at further. Raises ApiError."""
        is_open = known is not None and known.is_in_transaction(header.producer_epoch)
        if not is_open and not self.is_current(guard):
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has no open transaction here, and its coordinator was not asked for one",
            )
        pending = self._guards.get(header.producer_id)
        if pending is None or header.producer_epoch != pending.producer_epoch:
            return
        has_batches = known is not None and bool(known.batches)
        if pending.has_own_epoch and header.base_sequence != 0 and not has_batches:
            raise _out_of_order(header, 0)
        if _is_after(header.base_sequence, pending.lowest_sequence):
            raise _out_of_order(header, pending.lowest_sequence)


def _is_after(sequence: int, other: int) -> bool:
    """Whether one sequence comes after another; after the last comes 0 again."""
    return 0 < (sequence - other) & _SEQUENCE_MASK < _SEQUENCE_HALF


def _out_of_order(header: BatchHeader, expected: int) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} began its transaction with sequence {header.base_sequence}, expected is {expected}",
    )

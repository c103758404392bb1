"""EndTxn: how a transaction ends, and whether that was asked before."""

from __future__ import annotations

from tidelog.coordinator.transaction.checks import check_owner, is_owner, stranger
from tidelog.coordinator.transaction.settings import ProducerIdSource
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus
from tidelog.coordinator.transaction.transitions import aborted_unopened, decided, decided_in_place, successor_of
from tidelog.model import ApiError, ErrorCode, ProducerIdentity, TimestampMs

EPOCH_PER_TRANSACTION_SINCE = 5
"""The version of EndTxn that ends a transaction of version 2."""


def ended(
    state: TransactionState, producer: ProducerIdentity, *, is_committed: bool, now_ms: TimestampMs
) -> TransactionState | None:
    """What to write for a producer of version 1; None if it is so already. Raises ApiError."""
    check_owner(state, producer)
    if state.status is TransactionStatus.ONGOING:
        return decided_in_place(state, is_committed=is_committed, now_ms=now_ms)
    _check_asked_again(state, is_committed=is_committed)
    return None


def ended_with_epoch(
    state: TransactionState,
    producer: ProducerIdentity,
    *,
    is_committed: bool,
    ids: ProducerIdSource,
    now_ms: TimestampMs,
) -> TransactionState | None:
    """The same for a producer of version 2, which gets another epoch with each transaction."""
    if not is_owner(state, producer):
        is_again = producer == state.predecessor and state.status not in {
            TransactionStatus.ONGOING,
            TransactionStatus.EMPTY,
        }
        if not is_again:
            raise stranger(state, producer)
        _check_asked_again(state, is_committed=is_committed)
        return None
    if state.status.is_decided:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state.status is not TransactionStatus.ONGOING:
        if is_committed:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        return aborted_unopened(state, successor_of(state.owner, ids), now_ms)
    owner = successor_of(state.owner, ids)
    return decided(state, owner, is_committed=is_committed, previous=producer.producer_id, now_ms=now_ms)


def _check_asked_again(state: TransactionState, *, is_committed: bool) -> None:
    """Raises ApiError unless the last transaction is complete and ended like this."""
    ending = TransactionStatus.PREPARE_COMMIT if is_committed else TransactionStatus.PREPARE_ABORT
    complete = TransactionStatus.COMPLETE_COMMIT if is_committed else TransactionStatus.COMPLETE_ABORT
    if state.status is ending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state.status is not complete:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)

"""Which partitions are part of a transaction: adding them, and telling whether they are."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.transaction.checks import check_owner
from tidelog.coordinator.transaction.requests import JoinRequest
from tidelog.coordinator.transaction.states import TransactionState
from tidelog.coordinator.transaction.transitions import joined
from tidelog.model import ApiError, ErrorCode, TimestampMs, TopicPartition

PARTITIONS_MAX: Final = 10_000
"""How many partitions one transaction may have: all of them are written anew with each that comes."""


def check_member(state: TransactionState, request: JoinRequest) -> None:
    """Whether the producer may ask about its partitions at all. Raises ApiError."""
    check_owner(state, request.producer)
    if state.status.is_decided:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if state.is_kept:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)  # It was prepared: all that is left is to end it.


def verified(state: TransactionState, request: JoinRequest) -> dict[TopicPartition, ErrorCode]:
    """Which of the partitions are part of the open transaction. Raises ApiError."""
    check_member(state, request)
    members = frozenset(state.partitions)
    return {
        partition: ErrorCode.NONE if partition in members else ErrorCode.TRANSACTION_ABORTABLE
        for partition in request.partitions
    }


def extended(state: TransactionState, request: JoinRequest, now_ms: TimestampMs) -> TransactionState | None:
    """What to write so that the partitions are part of the transaction; None if they are already. Raises ApiError."""
    check_member(state, request)
    if frozenset(request.partitions).issubset(state.partitions):
        return None
    extended_state = joined(state, request.partitions, client_version=request.client_version, now_ms=now_ms)
    if len(extended_state.partitions) > PARTITIONS_MAX:
        raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE)
    return extended_state

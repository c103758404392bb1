"""InitProducerId: who may write under a transactional id from now on, and what becomes of a transaction that is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.coordinator.transaction.checks import is_owner
from tidelog.coordinator.transaction.settings import ProducerIdSource, TransactionSettings
from tidelog.coordinator.transaction.states import (
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    TransactionState,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.coordinator.transaction.transitions import fenced, initialised, kept, successor_of, take_id
from tidelog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ApiError,
    ErrorCode,
    ProducerId,
    ProducerIdentity,
    TimestampMs,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.primitives import CLASSIC_STRING_BYTES_MAX

FORGOTTEN_MAX: Final = 1_000
"""How many epochs of an id may have been given out that nobody remembers: as many transactions as one may do between two flushes, and more."""

_NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Incarnation(NamedTuple):
    """A state to be written, and what its owner is to hear of it."""

    state: TransactionState
    code: ErrorCode = ErrorCode.NONE


class Initialiser:
    """Decides about InitProducerId. All methods raise ApiError for what is refused."""

    def __init__(self, settings: Callable[[], TransactionSettings], ids: ProducerIdSource) -> None:
        self._settings = settings
        self._ids = ids

    def incarnation(
        self,
        request: InitProducerIdRequest,
        state: TransactionState | None,
        now_ms: TimestampMs,
        *,
        is_uncertain: bool = False,
    ) -> Incarnation:
        """What is to be written for a request that `check` lets pass.

        Where later epochs may have been given out than are known, a new incarnation gets one beyond them. Under an epoch that another one
        has written under its records would be taken for repetitions, and the other's be committed in their place.
        """
        if state is None:
            return Incarnation(self._first(request, now_ms))
        asking = asking_pair(request)
        if asking is not None and not is_owner(state, asking) and asking != state.predecessor:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if state.status.is_decided:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if state.status is not TransactionStatus.ONGOING:
            return Incarnation(self._next(request, state, now_ms, is_uncertain=is_uncertain))
        if request.keep_prepared_txn:
            return Incarnation(self._keeper(request, state, now_ms, is_uncertain=is_uncertain))
        return Incarnation(self._fence(state, asking, now_ms), ErrorCode.CONCURRENT_TRANSACTIONS)

    def check(self, request: InitProducerIdRequest) -> None:
        """Whether a request makes sense, whatever the state."""
        settings = self._settings()
        transactional_id = request.transactional_id or ""
        if not transactional_id or (request.keep_prepared_txn and not request.enable2_pc):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if len(transactional_id.encode()) > CLASSIC_STRING_BYTES_MAX:  # No key of a record could hold it.
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if request.enable2_pc:
            if not settings.is_two_phase_enabled:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if settings.version < TransactionVersion.TWO:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        elif not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def _first(self, request: InitProducerIdRequest, now_ms: TimestampMs) -> TransactionState:
        """Whatever pair it comes with: the id was forgotten, and with it everybody who had one."""
        return TransactionState(
            transactional_id=request.transactional_id or "",
            producer_id=take_id(self._ids),
            producer_epoch=0,
            timeout_ms=_timeout_ms(request),
            status=TransactionStatus.EMPTY,
            last_update_ms=now_ms,
        )

    def _next(
        self, request: InitProducerIdRequest, state: TransactionState, now_ms: TimestampMs, *, is_uncertain: bool
    ) -> TransactionState:
        owner, previous = self._successor(state, asking_pair(request), is_uncertain=is_uncertain)
        return initialised(state, owner, previous=previous, timeout_ms=_timeout_ms(request), now_ms=now_ms)

    def _keeper(
        self, request: InitProducerIdRequest, state: TransactionState, now_ms: TimestampMs, *, is_uncertain: bool
    ) -> TransactionState:
        keeper, previous = self._successor(state, asking_pair(request), is_uncertain=is_uncertain)
        return kept(state, keeper, previous=previous, timeout_ms=_timeout_ms(request), now_ms=now_ms)

    def _successor(
        self, state: TransactionState, asking: ProducerIdentity | None, *, is_uncertain: bool
    ) -> tuple[ProducerIdentity, ProducerId]:
        """The new owner, and whose request made it so."""
        owner, by = state.owner, FORGOTTEN_MAX if is_uncertain else 1
        if asking is None:
            return successor_of(owner, self._ids, by=by), NO_PRODUCER_ID
        if asking == owner or owner.producer_epoch == EPOCH_MAX:
            return successor_of(owner, self._ids, by=by), asking.producer_id
        return owner, state.previous_producer_id  # It asks once more.

    def _fence(self, state: TransactionState, asking: ProducerIdentity | None, now_ms: TimestampMs) -> TransactionState:
        if asking is not None and not is_owner(state, asking):
            raise ApiError(ErrorCode.PRODUCER_FENCED)  # It is late: the owner has begun to write.
        previous = NO_PRODUCER_ID if asking is None else asking.producer_id
        return fenced(state, previous=previous, cluster=self._settings().version, now_ms=now_ms)


def asking_pair(request: InitProducerIdRequest) -> ProducerIdentity | None:
    """The pair that the producer already has (KIP-360); None if it begins anew."""
    pair = ProducerIdentity(request.producer_id, request.producer_epoch)
    return None if pair == _NOBODY else pair


def _timeout_ms(request: InitProducerIdRequest) -> int:
    return NO_TIMEOUT_MS if request.enable2_pc else min(request.transaction_timeout_ms, NO_TIMEOUT_MS - 1)

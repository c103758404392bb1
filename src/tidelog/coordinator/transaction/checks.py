"""Who may ask anything of a transactional id, and what is too late.

A producer of version 1 has the same epoch in all its transactions, so that nothing in a request tells of which one it is. What does is the
connection it came by: a client that gives up on one opens another, and what the old one still brings is late mail. It is told to come again.
Should it do so by the same connection, somebody is alive there who uses several, and is heard. But a dead connection may bring several
requests, one right after the other: only what comes a while after the refusal can be an answer to it.
"""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.transaction.book import Heard, HeardChange, TransactionBook
from tidelog.coordinator.transaction.states import EPOCH_MAX, TransactionState
from tidelog.model import ApiError, ErrorCode, ProducerIdentity

DOUBT_MS: Final = 1_000
"""How long an old connection is not believed. What a network held back comes within moments; clients ask again for much longer than that."""


def state_of(book: TransactionBook, transactional_id: str | None) -> TransactionState:
    """What is known of an id. Raises ApiError if that is nothing."""
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    state = book.states.get(transactional_id)
    if state is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return state


def is_owner(state: TransactionState, producer: ProducerIdentity) -> bool:
    """Whether this is who may write. The last epoch is for fencing and belongs to nobody."""
    return producer == state.owner and producer.producer_epoch < EPOCH_MAX


def check_owner(state: TransactionState, producer: ProducerIdentity) -> None:
    """Raises ApiError for anybody else."""
    if not is_owner(state, producer):
        raise stranger(state, producer)


def stranger(state: TransactionState, producer: ProducerIdentity) -> ApiError:
    """What somebody hears who is neither the owner nor asks once more what made it the owner."""
    ids = {state.producer_id, state.owner.producer_id}
    is_known = producer.producer_id in ids
    return ApiError(ErrorCode.PRODUCER_FENCED if is_known else ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def hear(
    book: TransactionBook, state: TransactionState, producer: ProducerIdentity, connection: int
) -> tuple[HeardChange, ...]:
    """What to remember of a request of the owner. Brokers, whose connections have no number, do not count."""
    if not connection:
        return ()
    heard = book.heard.get(state.transactional_id)
    now = Heard(producer, connection)
    return () if heard == now else (HeardChange(state.transactional_id, now),)


def doubt(
    book: TransactionBook, transactional_id: str | None, producer: ProducerIdentity, connection: int, now_ms: float
) -> tuple[HeardChange, ...] | None:
    """What to remember of a request that is too late; None if it is not. `now_ms` is monotonic."""
    heard = book.heard.get(transactional_id or "")
    if heard is None or heard.producer != producer or not connection or connection >= heard.connection:
        return None
    if connection != heard.doubted:
        return (HeardChange(transactional_id or "", heard._replace(doubted=connection, doubted_ms=now_ms)),)
    # The time is not put off by what comes too soon: somebody who is alive may ask again more often than that.
    return None if now_ms - heard.doubted_ms >= DOUBT_MS else ()

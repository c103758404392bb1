"""What time brings: transactions whose producers were silent for too long, and ids that nobody used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.coordinator.machine import Moment, TimerChange
from tidelog.coordinator.transaction.book import TransactionBook
from tidelog.coordinator.transaction.settings import TransactionSettings
from tidelog.coordinator.transaction.states import EPOCH_LAST, TransactionState, TransactionStatus
from tidelog.coordinator.transaction.transitions import fenced
from tidelog.model import NO_PRODUCER_ID

EXPIRED_AT_ONCE: Final = 1_000
"""Ids that are looked at in one go."""


@dataclass(frozen=True, slots=True)
class TimeoutTimer:
    """The open transaction of an id takes too long."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """Time to look for ids that nobody used for long."""


def begun(state: TransactionState, now: Moment) -> TimerChange:
    """The timer of a transaction that has begun just now, or is kept and waits for ever."""
    at_ms = None if state.is_two_phase else now.monotonic_ms + state.timeout_ms
    return TimerChange(TimeoutTimer(state.transactional_id), at_ms)


def found(state: TransactionState, settings: TransactionSettings, now: Moment) -> TimerChange:
    """The timer of a transaction that had begun elsewhere, by another clock.

    If that clock was behind ours, there may be no time left though the producer is well. It gets a little, as little as a time-out may come
    late; and if the clock was ahead, not more than it asked for.
    """
    if state.is_two_phase:
        return TimerChange(TimeoutTimer(state.transactional_id), None)
    left_ms = max(state.start_ms + state.timeout_ms - now.wall_ms, settings.abort_check_ms)
    return TimerChange(TimeoutTimer(state.transactional_id), now.monotonic_ms + min(left_ms, state.timeout_ms))


def timed_out(state: TransactionState | None, settings: TransactionSettings, now: Moment) -> TransactionState | None:
    """What to write when the time of a transaction is over; None if there is no such transaction any more.

    The producer may still learn the epoch that fences it and go on: by asking for one, or in version 2 by aborting what is aborted already.
    Nobody else has it.
    """
    if state is None or state.status is not TransactionStatus.ONGOING or state.is_two_phase:
        return None
    owner = state.owner
    previous = owner.producer_id if owner.producer_epoch < EPOCH_LAST else NO_PRODUCER_ID
    return fenced(state, previous=previous, cluster=settings.version, now_ms=now.wall_ms)


def expired(book: TransactionBook, settings: TransactionSettings, now: Moment) -> tuple[list[str], TimerChange]:
    """Ids to forget, and when to look again: at once if there may be more."""
    rested = book.idle_states(EXPIRED_AT_ONCE)
    names = [
        state.transactional_id for state in rested if state.last_update_ms <= now.wall_ms - settings.id_expiration_ms
    ]
    has_more = bool(names) and len(rested) == EXPIRED_AT_ONCE
    again_ms = 0 if has_more else settings.expiry_check_ms
    return names, TimerChange(ExpiryTimer(), now.monotonic_ms + again_ms)

"""DescribeTransactions and ListTransactions: what is there to see (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from tidelog.coordinator.group.consumer.regex import matching
from tidelog.coordinator.machine import Token
from tidelog.coordinator.transaction.book import TransactionBook
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus
from tidelog.model import ErrorCode, TimestampMs
from tidelog.wire.messages.describe_transactions import TopicData
from tidelog.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.wire.messages.list_transactions import TransactionState as ListedTransaction

LISTED_AT_ONCE: Final = 1_000
"""Ids that are looked at in one go; with an expression that takes its time, too."""

LISTINGS_MAX: Final = 32
"""Lists that may be in the making at the same time."""

_STATUSES: Final = {status.label: status for status in TransactionStatus}


@dataclass(frozen=True, slots=True)
class ListingTimer:
    """Time to go on with a list."""

    token: Token


class Listing(NamedTuple):
    """A list in the making: which ids are left to look at, and what was found."""

    request: ListTransactionsRequest
    names: tuple[str, ...]
    position: int = 0
    found: tuple[ListedTransaction, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether all were looked at."""
        return self.position >= len(self.names)


class ListingChange(NamedTuple):
    """A change in memory: how far a list is; None when it is done."""

    token: Token
    listing: Listing | None


def describe(book: TransactionBook, transactional_id: str) -> DescribedTransaction:
    """How an id stands."""
    state = book.states.get(transactional_id)
    if state is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(error_code=code, transactional_id=transactional_id)
    topics = groupby(state.partitions, key=lambda partition: partition.topic)
    return DescribedTransaction(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=state.status.label,
        transaction_timeout_ms=state.timeout_ms,
        transaction_start_time_ms=state.start_ms,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        topics=tuple(TopicData(topic=topic, partitions=tuple(index for _, index in group)) for topic, group in topics),
    )


def go_on(listing: Listing, book: TransactionBook, now_ms: TimestampMs) -> Listing:
    """Look at some more ids; those that are gone by now are passed over. Raises ApiError for an expression that is none."""
    end = listing.position + LISTED_AT_ONCE
    names: Iterable[str] = listing.names[listing.position : end]
    pattern = listing.request.transactional_id_pattern
    if pattern:
        matched = matching(pattern, names)
        names = [name for name in names if name in matched]
    states = [book.states[name] for name in names if name in book.states]
    found = [_listed(state) for state in states if _is_asked_for(state, listing.request, now_ms)]
    return listing._replace(position=end, found=listing.found + tuple(found))


def list_answer(listing: Listing) -> ListTransactionsResponse:
    """All that was found, in any order; and names of states that nobody knows."""
    unknown = [name for name in listing.request.state_filters if name not in _STATUSES]
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=tuple(unknown),
        transaction_states=listing.found,
    )


def _listed(state: TransactionState) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        transaction_state=state.status.label,
    )


def _is_asked_for(state: TransactionState, request: ListTransactionsRequest, now_ms: TimestampMs) -> bool:
    if request.producer_id_filters and state.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and state.status.label not in request.state_filters:
        return False
    if request.duration_filter < 0:
        return True
    return not state.status.is_idle and now_ms - state.start_ms > request.duration_filter

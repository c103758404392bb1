"""The machine of one partition of `__transaction_state`: decides about transactional ids, and remembers them by their records.

Whoever asks is the owner of its id, or asks once more what made somebody the owner, or is refused. A transaction that is decided is told to
its partitions by an errand, and until all of them know it nothing else happens to the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.machine import (
    NO_DECISION,
    Command,
    CoordinatorRecord,
    Decision,
    Moment,
    Reply,
    TimerChange,
    TimerKey,
    Token,
    Written,
)
from tidelog.coordinator.transaction.answers import ended_answer, initialised_answer, refusal
from tidelog.coordinator.transaction.book import HeardChange, StateChange, TransactionBook, UncertainChange
from tidelog.coordinator.transaction.checks import doubt, hear, state_of
from tidelog.coordinator.transaction.ending import EPOCH_PER_TRANSACTION_SINCE, ended, ended_with_epoch
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.initialising import Initialiser, asking_pair
from tidelog.coordinator.transaction.joining import extended, verified
from tidelog.coordinator.transaction.partition_lists import PartitionLists
from tidelog.coordinator.transaction.records import KEY_VERSION, read_record, state_record, tombstone
from tidelog.coordinator.transaction.requests import (
    JoinRequest,
    JoinResponse,
    MarkersWrittenRequest,
    MarkersWrittenResponse,
)
from tidelog.coordinator.transaction.settings import ProducerIdSource, TransactionSettings
from tidelog.coordinator.transaction.states import (
    TransactionState,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.coordinator.transaction.timing import (
    ExpiryTimer,
    TimeoutTimer,
    begun,
    expired,
    found,
    timed_out,
)
from tidelog.coordinator.transaction.transitions import completed, given_up, take_id
from tidelog.coordinator.transaction.watching import (
    LISTINGS_MAX,
    Listing,
    ListingChange,
    ListingTimer,
    describe,
    go_on,
    list_answer,
)
from tidelog.model import ApiError, ErrorCode, Offset, ProducerId, ProducerIdentity, invariant
from tidelog.wire.definition import Response
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest

_TAKEN_OVER_AT_ONCE: Final = 100
"""Transactions in one piece of `on_loaded`."""
_UNCERTAIN_AT_ONCE: Final = 10_000


class TransactionMachine:
    """Knows every transactional id of its partition, and nothing of the partitions that transactions write to."""

    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        ids: ProducerIdSource,
        may_have_forgotten: Callable[[], bool],  # whether records of ours may have been lost in a power cut
    ) -> None:
        self._settings = settings
        self._may_have_forgotten = may_have_forgotten
        self._ids = ids
        self._initialiser = Initialiser(settings, ids)
        self._book = TransactionBook()
        self._lists = PartitionLists()
        self._listings: dict[Token, Listing] = {}
        self._deciders: dict[type, Callable[[Command, Moment], Decision]] = {
            InitProducerIdRequest: self._initialise,
            JoinRequest: self._join,
            EndTxnRequest: self._end,
            MarkersWrittenRequest: self._complete,
            DescribeTransactionsRequest: self._describe,
            ListTransactionsRequest: self._list,
        }

    # What the service calls.

    def decide(self, command: Command, now: Moment) -> Decision:
        """As the request calls for. A refusal waits like any other reply: it may tell of what is not committed yet."""
        try:
            return self._deciders[type(command.request)](command, now)
        except ApiError as error:
            return _answered(command, self.refusal(command, error.code))

    def refusal(self, command: Command, code: ErrorCode) -> Response:
        """In the words of the API."""
        return refusal(command, code)

    def on_timer(self, key: TimerKey, now: Moment) -> Decision:
        """A transaction takes too long, ids are to be forgotten, or a list goes on."""
        if isinstance(key, TimeoutTimer):
            state = timed_out(self._book.states.get(key.transactional_id), self._settings(), now)
            return NO_DECISION if state is None else self._written(state, now)
        if isinstance(key, ListingTimer):
            return self._go_on(key.token, now)
        invariant(isinstance(key, ExpiryTimer), "no other timers are set")
        names, again = expired(self._book, self._settings(), now)
        return Decision(records=tuple(tombstone(name) for name in names), timers=(again,), may_be_cut=True)

    def replay(self, record: CoordinatorRecord, written: Written) -> None:
        """Every record of an id replaces the one before."""
        del written
        if int.from_bytes(record.key[:2], "big", signed=True) != KEY_VERSION:
            return
        transactional_id, state = read_record(record, self._lists)
        if state is None:
            self._book.remove(transactional_id)
        else:
            self._book.put(state)

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """Records of transactions are not written in transactions."""

    def adopt(self, change: object) -> None:
        """Who was heard, how far a list is, and what a record of version 0 has no room for."""
        if isinstance(change, HeardChange):
            self._book.hear(change)
        elif isinstance(change, StateChange):
            self._book.put(change.state)
        elif isinstance(change, UncertainChange):
            self._book.uncertain.update(change.transactional_ids)
        elif isinstance(change, ListingChange):
            if change.listing is None:
                self._listings.pop(change.token, None)
            else:
                self._listings[change.token] = change.listing

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """What was decided is told to all partitions once more, and what is open is given its time."""
        settings = self._settings()
        yield Decision(timers=(TimerChange(ExpiryTimer(), now.monotonic_ms + settings.expiry_check_ms),))
        names = tuple(self._book.states) if self._may_have_forgotten() else ()
        for first in range(0, len(names), _UNCERTAIN_AT_ONCE):
            yield Decision(changes=(UncertainChange(names[first : first + _UNCERTAIN_AT_ONCE]),))
        all_states = self._book.open_states()
        for first in range(0, len(all_states), _TAKEN_OVER_AT_ONCE):
            states = all_states[first : first + _TAKEN_OVER_AT_ONCE]
            ongoing = [state for state in states if state.status is TransactionStatus.ONGOING]
            yield Decision(
                timers=tuple(found(state, settings, now) for state in ongoing),
                errands=tuple(_markers(state) for state in states if state.status.is_decided),
            )

    def on_topics_changed(self, now: Moment) -> Decision:
        """Nothing to do: whoever sends markers finds out."""
        del now
        return NO_DECISION

    # Requests.

    def _initialise(self, command: Command, now: Moment) -> Decision:
        request = asked(command, InitProducerIdRequest)
        self._initialiser.check(request)
        name, asking = request.transactional_id or "", asking_pair(request)
        late = None if asking is None else doubt(self._book, name, asking, command.client.connection, now.monotonic_ms)
        if late is not None:
            return self._too_late(command, late)
        state, code = self._initialiser.incarnation(
            request, self._book.states.get(name), now.wall_ms, is_uncertain=name in self._book.uncertain
        )
        return self._written(state, now, Reply(command.token, initialised_answer(state, code)))

    def _join(self, command: Command, now: Moment) -> Decision:
        request = asked(command, JoinRequest)
        state = state_of(self._book, request.transactional_id)
        if request.is_verification:
            return _answered(command, JoinResponse(codes=verified(state, request)))
        connection = command.client.connection
        late = doubt(self._book, request.transactional_id, request.producer, connection, now.monotonic_ms)
        if late is not None:
            return self._too_late(command, late)
        extended_state = extended(state, request, now.wall_ms)
        heard = hear(self._book, state, request.producer, connection)
        response = JoinResponse(codes=dict.fromkeys(request.partitions, ErrorCode.NONE))
        if extended_state is None:
            return _answered(command, response, heard)
        return self._written(extended_state, now, Reply(command.token, response), heard)

    def _end(self, command: Command, now: Moment) -> Decision:
        request, client = asked(command, EndTxnRequest), command.client
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        state = state_of(self._book, request.transactional_id)
        if client.version >= EPOCH_PER_TRANSACTION_SINCE or state.is_two_phase:
            after = ended_with_epoch(state, producer, is_committed=request.committed, ids=self._ids, now_ms=now.wall_ms)
            heard: tuple[HeardChange, ...] = ()
        else:
            late = doubt(self._book, request.transactional_id, producer, client.connection, now.monotonic_ms)
            if late is not None:
                return self._too_late(command, late)
            after = ended(state, producer, is_committed=request.committed, now_ms=now.wall_ms)
            heard = hear(self._book, state, producer, client.connection)
        if after is None:
            return _answered(command, ended_answer(state), heard)
        return self._written(after, now, Reply(command.token, ended_answer(after)), heard)

    def _complete(self, command: Command, now: Moment) -> Decision:
        request = asked(command, MarkersWrittenRequest)
        state = self._book.states.get(request.transactional_id)
        response = MarkersWrittenResponse(code=ErrorCode.NONE)
        if state is None or not state.status.is_decided or _markers(state).written(request.refused) != request:
            return _answered(command, response)
        reply = Reply(command.token, response)
        if not request.refused or state.is_given_up:
            return self._written(completed(state, now.wall_ms), now, reply)
        # There are epochs of this producer id that we have never given out, or have forgotten: a power cut took more of our log than of those
        # partitions. Whoever had them is no owner any more, and the next owner must not meet them. So the id goes on under another
        # producer id, and once that is certain, nobody writes under this one, and what is open under it may be aborted. That is one more
        # errand of a decision, which is there until it is done, whoever coordinates.
        partitions = tuple(sorted(request.refused))
        return self._written(given_up(state, partitions, take_id(self._ids), now.wall_ms), now, reply)

    def _describe(self, command: Command, now: Moment) -> Decision:
        del now
        names = asked(command, DescribeTransactionsRequest).transactional_ids
        states = tuple(describe(self._book, name) for name in names)
        return _answered(command, DescribeTransactionsResponse(transaction_states=states))

    def _list(self, command: Command, now: Moment) -> Decision:
        if len(self._listings) >= LISTINGS_MAX:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        request = asked(command, ListTransactionsRequest)
        return self._listed(command.token, Listing(request, tuple(self._book.states)), now)

    # How it is said.

    def _written(
        self,
        state: TransactionState,
        now: Moment,
        reply: Reply | None = None,
        heard: tuple[HeardChange, ...] = (),
    ) -> Decision:
        """Have a state written, with all that follows from it."""
        cluster = self._settings().version
        before = self._book.states.get(state.transactional_id)
        was_open = before is not None and before.status is TransactionStatus.ONGOING
        timers: tuple[TimerChange, ...] = ()
        if state.status is TransactionStatus.ONGOING and (not was_open or state.is_kept):
            timers = (begun(state, now),)
        elif was_open and state.status is not TransactionStatus.ONGOING:
            timers = (TimerChange(TimeoutTimer(state.transactional_id), None),)
        forgotten = () if cluster >= TransactionVersion.ONE else (StateChange(state),)
        return Decision(
            replies=() if reply is None else (reply,),
            records=(state_record(state, cluster, self._lists),),
            changes=(*forgotten, *heard),
            timers=timers,
            errands=(_markers(state),) if state.status.is_decided else (),
        )

    def _too_late(self, command: Command, late: tuple[HeardChange, ...]) -> Decision:
        """Told at once: it tells nothing of what is written, and whoever is alive has to hear it before the doubt is over."""
        answer = Reply(command.token, self.refusal(command, ErrorCode.CONCURRENT_TRANSACTIONS))
        return Decision(replies=(answer,), changes=late, is_told_at_once=True)

    def _go_on(self, token: Token, now: Moment) -> Decision:
        listing = self._listings.get(token)
        return NO_DECISION if listing is None else self._listed(token, listing, now)

    def _listed(self, token: Token, listing: Listing, now: Moment) -> Decision:
        """Some of a list; it is told when it is complete."""
        listing = go_on(listing, self._book, now.wall_ms)
        if listing.is_done:
            return Decision(replies=(Reply(token, list_answer(listing)),), changes=(ListingChange(token, None),))
        again = TimerChange(ListingTimer(token), now.monotonic_ms)
        return Decision(changes=(ListingChange(token, listing),), timers=(again,))


def _answered(command: Command, response: Response, changes: tuple[HeardChange, ...] = ()) -> Decision:
    return Decision(replies=(Reply(command.token, response),), changes=changes)


def _markers(state: TransactionState) -> SendMarkers:
    """What all partitions of a transaction must hear that was decided."""
    return SendMarkers(
        transactional_id=state.transactional_id,
        producer=state.writer,
        is_committed=state.status is TransactionStatus.PREPARE_COMMIT,
        partitions=state.partitions,
        has_own_epoch=state.client_version is TransactionVersion.TWO,
        decided_ms=state.last_update_ms,
    )

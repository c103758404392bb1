"""What may be done with a transaction, and when."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tidelog.client.errors import ClientError, ProducerFenced, RequestRefused, TransactionFailed, WrongUse
from tidelog.client.transactions.answers import Meaning
from tidelog.client.transactions.state import Status, TransactionState
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition

T0 = TopicPartition("t", 0)
ME, KEPT = ProducerIdentity(7, 3), ProducerIdentity(7, 2)
REFUSED = RequestRefused(ErrorCode.TRANSACTION_ABORTABLE)
FENCED = ProducerFenced("taken over")


def ready() -> TransactionState:
    state = TransactionState()
    state.begin_initialization()
    state.on_identity(ME)
    state.on_initialized(None)
    return state


def opened(*, is_version_two: bool = True) -> TransactionState:
    state = ready()
    state.begin(is_version_two=is_version_two)
    return state


def failed(error: ClientError = REFUSED, meaning: Meaning = Meaning.ABORT) -> TransactionState:
    state = opened()
    state.participants.enlist(T0)
    state.fail(error, meaning)
    return state


def test_a_transaction_begins_only_after_the_transactional_id_was_taken() -> None:
    state = TransactionState()
    with pytest.raises(WrongUse, match=r"begin_transaction\(\) makes no sense now: .* init_transactions\(\)"):
        state.begin(is_version_two=True)
    assert ready().status is Status.READY


def test_records_are_sent_in_a_transaction_only() -> None:
    with pytest.raises(WrongUse, match="has no transaction"):
        ready().check_open("send()")
    opened().check_open("send()")


def test_a_second_transaction_does_not_begin_in_the_first() -> None:
    with pytest.raises(WrongUse, match="is in a transaction"):
        opened().begin(is_version_two=True)


@pytest.mark.parametrize("is_committed", [True, False])
def test_after_its_end_another_transaction_begins(is_committed: bool) -> None:
    state = opened()
    state.begin_end(is_committed=is_committed)
    state.on_end_asked()
    state.on_end_answered()
    state.on_ended()
    state.begin(is_version_two=True)
    assert (state.status, state.ordinal) == (Status.OPEN, 2)


def test_without_a_transaction_nothing_is_committed_or_aborted() -> None:
    for is_committed in (True, False):
        with pytest.raises(WrongUse, match="has no transaction"):
            ready().begin_end(is_committed=is_committed)


def test_a_failed_transaction_is_not_committed_but_aborted() -> None:
    state = failed()
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE") as raised:
        state.begin_end(is_committed=True)
    assert raised.value.__cause__ is REFUSED
    state.begin_end(is_committed=False)
    assert state.status is Status.ABORTING


def test_nothing_is_sent_in_a_failed_transaction() -> None:
    with pytest.raises(TransactionFailed):
        failed().check_open("send()")
    assert not failed().is_sending


def test_the_first_failure_is_told() -> None:
    state = failed()
    state.fail(RequestRefused(ErrorCode.INVALID_TXN_STATE), Meaning.ABORT)
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
        state.check_not_failed()


def test_a_fenced_producer_can_do_nothing_any_more() -> None:
    state = failed(FENCED, Meaning.FENCED)
    forbidden_calls: list[Callable[[], None]] = [
        partial(state.begin_end, is_committed=True),
        partial(state.begin_end, is_committed=False),
        partial(state.check_open, "send()"),
        partial(state.begin, is_version_two=True),
        state.prepare,
        state.begin_initialization,
    ]
    for forbidden in forbidden_calls:
        with pytest.raises(ProducerFenced):
            forbidden()


def test_being_fenced_outweighs_a_failure() -> None:
    state = failed()
    state.fail(FENCED, Meaning.FENCED)
    state.fail(REFUSED, Meaning.ABORT)
    with pytest.raises(ProducerFenced):
        state.begin_end(is_committed=False)


def test_a_failure_while_aborting_changes_nothing() -> None:
    state = opened()
    state.begin_end(is_committed=False)
    state.fail(REFUSED, Meaning.ABORT)
    assert state.status is Status.ABORTING


def test_a_batch_that_fails_while_committing_makes_it_an_abort() -> None:
    state = opened()
    state.begin_end(is_committed=True)
    state.fail(REFUSED, Meaning.ABORT)
    with pytest.raises(TransactionFailed):
        state.check_not_failed()
    state.begin_end(is_committed=False)


def test_a_commit_that_was_asked_for_is_asked_for_again_but_not_turned_into_an_abort() -> None:
    state = opened()
    state.begin_end(is_committed=True)
    state.on_end_asked()
    state.begin_end(is_committed=True)
    with pytest.raises(WrongUse, match=r"commit_transaction\(\) must be called again"):
        state.begin_end(is_committed=False)


def test_a_commit_that_still_waits_for_its_records_may_become_an_abort() -> None:
    state = opened()
    state.begin_end(is_committed=True)
    state.begin_end(is_committed=False)
    assert state.status is Status.ABORTING


def test_an_abort_that_was_not_answered_does_not_become_a_commit() -> None:
    state = opened()
    state.begin_end(is_committed=False)
    with pytest.raises(WrongUse, match=r"abort_transaction\(\) must be called again"):
        state.begin_end(is_committed=True)


def test_who_is_forgotten_by_the_coordinator_ends_nothing_but_needs_another_epoch() -> None:
    state = failed(RequestRefused(ErrorCode.INVALID_PRODUCER_ID_MAPPING), Meaning.RENEW)
    state.begin_end(is_committed=False)
    assert not state.participants.may_be_ongoing
    assert state.needs_renewal
    state.on_identity(ProducerIdentity(8, 0))
    assert not state.needs_renewal


def test_a_prepared_transaction_takes_no_records_and_waits_for_its_outcome() -> None:
    state = opened()
    state.participants.enlist(T0)
    state.prepare()
    with pytest.raises(WrongUse, match="has prepared its transaction"):
        state.check_open("send()")
    assert state.is_sending  # what was gathered before still leaves
    assert not state.is_open  # and closing the producer does not abort it
    assert state.ongoing == ME
    state.begin_end(is_committed=True)


def test_an_empty_transaction_was_written_by_nobody() -> None:
    state = opened()
    state.prepare()
    assert state.ongoing is None


def test_a_transaction_that_was_kept_is_prepared_under_its_writers_name() -> None:
    state = TransactionState()
    state.begin_initialization()
    state.on_identity(ME)
    state.on_initialized(KEPT)
    assert (state.status, state.ongoing, state.identity) == (Status.PREPARED, KEPT, ME)
    assert state.participants.may_be_ongoing


def test_after_a_hand_over_the_id_may_be_taken_anew() -> None:
    state = opened()
    state.prepare()
    state.begin_initialization()
    state.on_identity(ProducerIdentity(7, 5))
    state.on_initialized(None)
    assert state.status is Status.READY


def test_whoever_waits_for_the_first_answer_asks_again() -> None:
    state = TransactionState()
    state.begin_initialization()
    state.begin_initialization()
    with pytest.raises(WrongUse, match="has no transaction"):
        ready().begin_initialization()

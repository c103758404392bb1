"""Two-phase commit (KIP-939): transactions that wait for their owner, and later incarnations that end them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, P2, Room, after
from tidelog.coordinator import NO_DECISION
from tidelog.coordinator.transaction.states import (
    EPOCH_LAST,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.coordinator.transaction.timing import TimeoutTimer
from tidelog.model import ErrorCode, ProducerIdentity

NONE, FENCED, INVALID = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
OUTCOMES = [True, False]
TWO_PHASE: dict[str, Any] = {"enable2_pc": True, "transaction_timeout_ms": 0}
KEEP: dict[str, Any] = {**TWO_PHASE, "keep_prepared_txn": True}


def prepared() -> tuple[Room, ProducerIdentity]:
    """A transaction that its producer has prepared, and the producer."""
    room = Room()
    writer = room.producer(**TWO_PHASE)
    assert room.join(writer, P0, P1) is NONE
    return room, writer


def test_two_phases_must_be_enabled() -> None:
    room = Room()
    room.set(is_two_phase_enabled=False)
    assert room.init(**TWO_PHASE).error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert room.init(**KEEP).error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not room.driver.log


def test_who_keeps_must_take_part() -> None:
    assert Room().init(keep_prepared_txn=True).error_code is ErrorCode.INVALID_REQUEST


def test_two_phases_need_version_2() -> None:
    room = Room()
    room.set(version=TransactionVersion.ONE)
    assert room.init(**TWO_PHASE).error_code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_a_prepared_transaction_waits_for_ever(has_failed_over: bool) -> None:
    room, writer = prepared()
    assert room.state.timeout_ms == NO_TIMEOUT_MS
    assert TimeoutTimer(NAME) not in room.driver.timers
    if has_failed_over:
        room.driver.fail_over()
    room.driver.wait_ms(365 * 86_400_000)
    assert room.status() is TransactionStatus.ONGOING
    assert room.ended(writer) == after(writer)


@pytest.mark.parametrize("status", [TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT])
def test_without_a_transaction_there_is_nothing_to_keep(status: TransactionStatus) -> None:
    room = Room()
    old = room.reach(status)
    response = room.init(**KEEP)
    assert (response.producer_id, response.producer_epoch) == after(old)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)
    assert (room.status(), room.state.timeout_ms) == (TransactionStatus.EMPTY, NO_TIMEOUT_MS)


def test_a_transaction_that_ends_cannot_be_kept() -> None:
    room = Room()
    room.reach(TransactionStatus.PREPARE_COMMIT)
    assert room.init(**KEEP).error_code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_what_was_answered_before_it_began_cannot_be_kept() -> None:
    room = Room()
    old = room.producer(**TWO_PHASE)
    new = room.producer(old, **TWO_PHASE)
    room.join(new)
    assert room.init(old, **KEEP).error_code is FENCED
    assert room.end(new, is_committed=True) is NONE


def test_a_very_long_timeout_is_one() -> None:
    room = Room(TransactionVersion.ZERO)
    room.set(max_timeout_ms=NO_TIMEOUT_MS)
    producer = room.producer(transaction_timeout_ms=NO_TIMEOUT_MS)
    room.join(producer)
    assert room.ended(producer) == producer


def test_without_keeping_it_the_transaction_is_aborted() -> None:
    room, writer = prepared()
    assert room.init(**TWO_PHASE).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (room.errands[0].producer, room.errands[0].is_committed) == (after(writer), False)


def test_a_keeper_hears_who_wrote_the_transaction() -> None:
    room, writer = prepared()
    response = room.init(**KEEP)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (NONE, *after(writer))
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == writer
    state = room.state
    assert (state.status, state.partitions, state.writer) == (TransactionStatus.ONGOING, (P0, P1), writer)


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_the_writer_is_fenced_on_every_call(has_failed_over: bool) -> None:
    room, writer = prepared()
    room.producer(**KEEP)
    if has_failed_over:
        room.driver.fail_over()
    length = len(room.driver.log)
    assert room.join(writer, P2) is FENCED
    assert room.join(writer, P0) is FENCED
    assert room.join(writer, P0, is_verification=True) is FENCED
    assert room.end(writer, is_committed=True) is FENCED
    assert room.end(writer, is_committed=True, version=4) is FENCED
    assert room.init(writer).error_code is FENCED
    assert room.init(writer, **KEEP).error_code is FENCED
    assert len(room.driver.log) == length


def test_what_is_kept_gets_no_bigger() -> None:
    room, _ = prepared()
    keeper = room.producer(**KEEP)
    assert room.join(keeper, P0) is INVALID
    assert room.join(keeper, P2) is INVALID
    assert room.join(keeper, P0, is_verification=True) is INVALID


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_the_keeper_ends_the_transaction_of_the_writer(
    is_committed: bool,
    has_failed_over: bool,
    version: int,
) -> None:
    room, writer = prepared()
    keeper = room.producer(**KEEP)
    if has_failed_over:
        room.driver.fail_over()
    after_all = room.ended(keeper, is_committed=is_committed, version=version)
    assert after_all == after(keeper)
    (errand,) = room.errands
    assert (errand.producer, errand.is_committed, errand.has_own_epoch) == (after(writer, 2), is_committed, True)
    assert errand.partitions == (P0, P1)
    assert room.end(keeper, is_committed=is_committed, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS
    room.write_markers()
    assert room.ended(keeper, is_committed=is_committed, version=version) == after_all
    assert room.end(writer, is_committed=is_committed) is FENCED
    assert room.join(after_all, P2) is NONE


def test_a_later_keeper_fences_the_earlier_one() -> None:
    room, writer = prepared()
    first = room.producer(**KEEP)
    second_answer = room.init(**KEEP)
    second = ProducerIdentity(second_answer.producer_id, second_answer.producer_epoch)
    assert second == after(first)
    assert (second_answer.ongoing_txn_producer_id, second_answer.ongoing_txn_producer_epoch) == writer
    assert room.end(first, is_committed=True) is FENCED
    assert room.init(first, **KEEP).error_code is FENCED
    room.driver.fail_over()
    assert room.ended(second) == after(second)
    assert room.errands[0].producer == after(second)


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_a_keeper_that_names_itself_is_answered_again(has_failed_over: bool) -> None:
    room, writer = prepared()
    keeper = room.producer(writer, **KEEP)
    if has_failed_over:
        room.driver.fail_over()
    again = room.init(writer, **KEEP)
    assert (again.producer_id, again.producer_epoch) == keeper
    assert (again.ongoing_txn_producer_id, again.ongoing_txn_producer_epoch) == writer
    assert room.init(writer, **TWO_PHASE).error_code is FENCED
    assert room.end(writer, is_committed=True) is FENCED
    assert room.status() is TransactionStatus.ONGOING
    assert room.producer(keeper, **KEEP) == after(keeper)


def test_an_incarnation_that_keeps_nothing_aborts_what_another_kept() -> None:
    room, writer = prepared()
    keeper = room.producer(**KEEP)
    assert room.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (room.errands[0].producer, room.errands[0].is_committed) == (after(writer, 2), False)
    assert room.end(keeper, is_committed=True) is FENCED
    room.write_markers()
    assert room.producer() == after(keeper, 2)


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_the_keeper_of_the_last_epoch_has_another_producer_id(is_committed: bool) -> None:
    room, writer = prepared()
    writer = room.wear_out(writer, EPOCH_LAST)
    answer = room.init(**KEEP)
    keeper = ProducerIdentity(answer.producer_id, answer.producer_epoch)
    assert keeper == (1_001, 0)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == writer
    assert room.join(writer, P0) is FENCED
    assert room.end(writer, is_committed=is_committed) is FENCED
    room.driver.fail_over()
    assert room.ended(keeper, is_committed=is_committed) == after(keeper)
    assert room.errands[0].producer == (1_000, EPOCH_MAX)
    room.driver.fail_over()
    assert room.end(keeper, is_committed=is_committed) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.end(keeper, is_committed=not is_committed) is INVALID
    room.write_markers()
    for _ in range(2):
        assert room.ended(keeper, is_committed=is_committed) == after(keeper)
        assert room.state.writer == after(keeper)
        room.driver.fail_over()
    assert room.join(after(keeper), P0) is NONE


def test_keepers_may_use_up_all_epochs_and_go_on_under_another_id() -> None:
    room, writer = prepared()
    room.producer(**KEEP)
    room.put(replace(room.state, next_producer_epoch=EPOCH_LAST - 1))
    last = room.producer(**KEEP)
    assert last == (writer.producer_id, EPOCH_LAST)
    keeper = room.producer(**KEEP)
    assert keeper == (1_001, 0)
    assert room.end(last, is_committed=True) is FENCED
    assert room.init(**TWO_PHASE).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.errands[0].producer == (writer.producer_id, EPOCH_MAX)
    room.write_markers()
    assert room.state.owner == after(keeper)
    assert room.producer() == after(keeper, 2)


def test_a_keeper_with_the_last_epoch_goes_on_under_another_id() -> None:
    room, _ = prepared()
    room.producer(**KEEP)
    room.put(replace(room.state, next_producer_epoch=EPOCH_LAST))
    keeper = room.state.owner
    new = room.ended(keeper)
    assert new == (1_001, 0)
    assert room.errands[0].producer == (1_000, EPOCH_MAX)
    room.write_markers()
    assert room.ended(keeper) == new
    assert room.join(new) is NONE


def test_a_transaction_that_would_time_out_does_not_once_it_is_kept() -> None:
    room = Room()
    writer = room.producer(transaction_timeout_ms=1_000)
    room.join(writer)
    keeper = room.producer(**KEEP)
    assert TimeoutTimer(NAME) not in room.driver.timers
    assert room.driver.machine.on_timer(TimeoutTimer(NAME), room.driver.now) == NO_DECISION
    room.driver.wait_ms(3_600_000)
    assert room.status() is TransactionStatus.ONGOING
    assert room.end(keeper, is_committed=True) is NONE


def test_operators_see_the_writer_of_what_is_kept() -> None:
    room, writer = prepared()
    room.producer(**KEEP)
    described = room.describe()
    assert (described.producer_id, described.producer_epoch) == writer
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", NO_TIMEOUT_MS)
    assert room.listed(producer_id_filters=(described.producer_id,)) == [NAME]

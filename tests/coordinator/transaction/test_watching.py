"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, P2, TIMEOUT_MS, Room, after, topics
from tidelog.coordinator import Written
from tidelog.coordinator.transaction.records import tombstone
from tidelog.coordinator.transaction.states import TransactionStatus
from tidelog.coordinator.transaction.watching import LISTED_AT_ONCE, LISTINGS_MAX
from tidelog.model import ErrorCode
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
from tidelog.wire.messages.list_transactions import TransactionState as ListedTransaction

LABELS = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


@pytest.mark.parametrize(("status", "label"), list(zip(TransactionStatus, LABELS, strict=False)))
def test_every_state_has_its_name(status: TransactionStatus, label: str) -> None:
    room = Room()
    owner = room.reach(status)
    described = room.describe()
    assert (described.error_code, described.transactional_id) == (ErrorCode.NONE, NAME)
    assert (described.transaction_state, described.transaction_timeout_ms) == (label, TIMEOUT_MS)
    assert (described.producer_id, described.producer_epoch) == owner
    assert room.listed(state_filters=(label,)) == [NAME]
    assert room.listed(state_filters=tuple(other for other in LABELS if other != label)) == []


def test_an_open_transaction_shows_its_partitions() -> None:
    room = Room()
    producer = room.producer()
    begun_ms = room.driver.now.wall_ms
    room.join(producer, P2, P1, P0)
    described = room.describe()
    assert described.topics == topics(("orders", (0, 1)), ("stock", (0,)))
    assert described.transaction_start_time_ms == begun_ms
    room.ended(producer)
    assert room.describe().topics == described.topics
    room.write_markers()
    assert room.describe().topics == ()


def test_an_id_without_any_transaction_has_no_start() -> None:
    room = Room()
    room.producer()
    assert room.describe().transaction_start_time_ms == -1


def test_ids_that_nobody_knows() -> None:
    room = Room()
    assert room.describe().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert room.describe("").error_code is ErrorCode.INVALID_REQUEST


def test_nothing_is_listed_where_nothing_is() -> None:
    assert Room().listed() == []


def test_a_list_says_who_and_how() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    response = room.driver.ask(ListTransactionsRequest(), version=0)
    assert response.transaction_states == (
        ListedTransaction(transactional_id=NAME, producer_id=producer.producer_id, transaction_state="Ongoing"),
    )


def test_lists_are_by_producer() -> None:
    room = Room()
    one, two = room.producer(name="one"), room.producer(name="two")
    room.producer(name="three")
    assert room.listed(producer_id_filters=(one.producer_id, two.producer_id, 7)) == ["one", "two"]
    assert room.listed(producer_id_filters=(7,)) == []


def test_names_of_states_that_nobody_knows_are_given_back() -> None:
    room = Room()
    room.producer()
    request = ListTransactionsRequest(state_filters=("Empty", "Bogus", "empty"))
    response = room.driver.ask(request, version=0)
    assert (len(response.transaction_states), response.unknown_state_filters) == (1, ("Bogus", "empty"))
    assert room.listed(state_filters=("Bogus",)) == []


def test_lists_are_by_duration_of_what_is_open() -> None:
    room = Room()
    room.producer(name="idle")
    room.join(room.producer(name="first"), name="first")
    room.driver.wait_ms(1_000)
    room.join(room.producer(name="second"), name="second")
    room.driver.wait_ms(1_000)
    assert room.listed(duration_filter=-1) == ["first", "idle", "second"]
    assert room.listed(duration_filter=0) == ["first", "second"]
    assert room.listed(duration_filter=999) == ["first", "second"]
    assert room.listed(duration_filter=1_000) == ["first"]
    assert room.listed(duration_filter=2_000) == []


def test_lists_are_by_pattern_of_the_whole_name() -> None:
    room = Room()
    for name in ("pay-1", "pay-2", "prepay-1"):
        room.producer(name=name)
    assert room.listed(transactional_id_pattern="pay-.*") == ["pay-1", "pay-2"]
    assert room.listed(transactional_id_pattern=".*-1", state_filters=("Empty",)) == ["pay-1", "prepay-1"]
    assert room.listed(transactional_id_pattern="pay") == []
    assert room.listed(transactional_id_pattern="") == ["pay-1", "pay-2", "prepay-1"]


@pytest.mark.parametrize("has_ids", [False, True])
def test_a_pattern_that_is_none_is_refused(has_ids: bool) -> None:
    room = Room()
    if has_ids:
        room.producer()
    response = room.driver.ask(ListTransactionsRequest(transactional_id_pattern="("), version=2)
    assert response.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_long_lists_are_made_a_part_at_a_time() -> None:
    room = Room()
    names = sorted(f"t{number:05}" for number in range(2 * LISTED_AT_ONCE + 1))
    producers = [room.producer(name=name) for name in names]
    token = room.driver.send(ListTransactionsRequest(transactional_id_pattern="t.*"), version=2)
    assert room.driver.is_parked(token)
    assert room.producer(producers[-1], name=names[-1]) == after(producers[-1])  # Others go on meanwhile.
    room.driver.wait_ms(0)
    response = room.driver.answer(token)
    assert [state.transactional_id for state in response.transaction_states] == names


def test_ids_that_are_forgotten_meanwhile_are_not_listed() -> None:
    room = Room()
    for number in range(LISTED_AT_ONCE + 1):
        room.producer(name=f"t{number}")
    token = room.driver.send(ListTransactionsRequest(), version=2)
    room.driver.machine.replay(tombstone(f"t{LISTED_AT_ONCE}"), Written(0))
    room.driver.wait_ms(0)
    assert len(room.driver.answer(token).transaction_states) == LISTED_AT_ONCE


@pytest.mark.slow
def test_only_so_many_lists_are_in_the_making() -> None:
    room = Room()
    for number in range(LISTED_AT_ONCE + 1):
        room.producer(name=f"t{number}")
    tokens = [room.driver.send(ListTransactionsRequest(), version=2) for _ in range(LISTINGS_MAX)]
    refused = room.driver.ask(ListTransactionsRequest(), version=2)
    assert refused.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    room.driver.wait_ms(0)
    assert {room.driver.answer(token).error_code for token in tokens} == {ErrorCode.NONE}
    token = room.driver.send(ListTransactionsRequest(), version=2)
    room.driver.wait_ms(0)
    assert room.driver.answer(token).error_code is ErrorCode.NONE


def test_a_list_that_is_cut_off_by_a_fail_over_is_refused() -> None:
    room = Room()
    for number in range(LISTED_AT_ONCE + 1):
        room.producer(name=f"t{number}")
    token = room.driver.send(ListTransactionsRequest(), version=2)
    room.driver.fail_over()
    assert room.driver.answer(token).error_code is ErrorCode.NOT_COORDINATOR


def test_descriptions_are_refused_one_by_one() -> None:
    room = Room()
    room.producer()
    described = room.driver.ask(DescribeTransactionsRequest(transactional_ids=(NAME, "other")), version=0)
    codes = [state.error_code for state in described.transaction_states]
    assert codes == [ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]

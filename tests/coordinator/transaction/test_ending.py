"""EndTxn: every state, outcome and version; asked again, asked late; and what becomes of the markers."""

from __future__ import annotations

import pytest

from tests.coordinator.transaction.transaction_room import P0, P1, P2, Room, after, before
from tidelog.coordinator.transaction.states import EPOCH_LAST, EPOCH_MAX, TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = list(TransactionStatus)[:6]
NONE, CONCURRENT, INVALID = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
FENCED, UNKNOWN = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
OUTCOMES = [True, False]

# What the owner hears, by state: to a commit, to an abort.
VERSION_1 = {
    EMPTY: (INVALID, INVALID),
    ONGOING: (NONE, NONE),
    PREPARE_COMMIT: (CONCURRENT, INVALID),
    PREPARE_ABORT: (INVALID, CONCURRENT),
    COMPLETE_COMMIT: (NONE, INVALID),
    COMPLETE_ABORT: (INVALID, NONE),
}
VERSION_2 = {
    EMPTY: (INVALID, NONE),
    ONGOING: (NONE, NONE),
    PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    COMPLETE_COMMIT: (INVALID, NONE),
    COMPLETE_ABORT: (INVALID, NONE),
}
# What whoever asks again hears, who has not heard of the epoch that it got.
VERSION_2_AGAIN = {
    EMPTY: (FENCED, FENCED),
    ONGOING: (FENCED, FENCED),
    PREPARE_COMMIT: (CONCURRENT, INVALID),
    PREPARE_ABORT: (INVALID, CONCURRENT),
    COMPLETE_COMMIT: (NONE, INVALID),
    COMPLETE_ABORT: (INVALID, NONE),
}


@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize("is_committed", OUTCOMES)
@pytest.mark.parametrize("status", list(VERSION_1))
def test_version_1(
    status: TransactionStatus,
    is_committed: bool,
    has_failed_over: bool,
) -> None:
    room = Room(TransactionVersion.ZERO)
    owner = room.reach(status)
    if has_failed_over:
        room.driver.fail_over()
    length = len(room.driver.log)
    assert room.end(owner, is_committed=is_committed) is VERSION_1[status][not is_committed]
    assert len(room.driver.log) - length == (status is ONGOING)
    assert room.state.owner == owner


@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize("is_committed", OUTCOMES)
@pytest.mark.parametrize("status", list(VERSION_2))
def test_version_2(
    status: TransactionStatus,
    is_committed: bool,
    has_failed_over: bool,
) -> None:
    room = Room()
    owner = room.reach(status)
    if has_failed_over:
        room.driver.fail_over()
    length = len(room.driver.log)
    response = room.ask_end(owner, is_committed=is_committed)
    code = VERSION_2[status][not is_committed]
    assert response.error_code is code
    assert len(room.driver.log) - length == (code is NONE)
    new = after(owner) if code is NONE else owner
    assert room.state.owner == new
    assert (response.producer_id, response.producer_epoch) == (new if code is NONE else (-1, -1))


@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize("is_committed", OUTCOMES)
@pytest.mark.parametrize("status", list(VERSION_2_AGAIN))
def test_version_2_again(
    status: TransactionStatus,
    is_committed: bool,
    has_failed_over: bool,
) -> None:
    room = Room()
    owner = room.reach(status)
    if has_failed_over:
        room.driver.fail_over()
    length = len(room.driver.log)
    response = room.ask_end(before(owner), is_committed=is_committed)
    code = VERSION_2_AGAIN[status][not is_committed]
    assert response.error_code is code
    assert len(room.driver.log) == length
    assert (response.producer_id, response.producer_epoch) == (owner if code is NONE else (-1, -1))


@pytest.mark.parametrize("version", [TransactionVersion.ZERO, TransactionVersion.TWO])
@pytest.mark.parametrize("is_committed", OUTCOMES)
@pytest.mark.parametrize("status", list(VERSION_1))
def test_strangers_change_nothing(
    status: TransactionStatus,
    is_committed: bool,
    version: TransactionVersion,
) -> None:
    room = Room(version)
    owner = room.reach(status)
    length = len(room.driver.log)
    for pair, code in [
        (after(owner), FENCED),
        (after(owner, -2), FENCED),
        (ProducerIdentity(owner.producer_id, EPOCH_MAX), FENCED),
        (ProducerIdentity(999, owner.producer_epoch), UNKNOWN),
    ]:
        assert room.end(pair, is_committed=is_committed) is code
    assert len(room.driver.log) == length


def test_an_id_that_nobody_knows_has_no_transaction() -> None:
    room = Room()
    pair = ProducerIdentity(1_000, 0)
    assert room.end(pair, is_committed=True) is UNKNOWN
    assert room.end(pair, is_committed=True, name="") is ErrorCode.INVALID_REQUEST


# Markers.


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_markers_of_version_1_have_the_epoch_of_the_transaction(is_committed: bool) -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.reach(ONGOING)
    room.ended(producer, is_committed=is_committed)
    (errand,) = room.errands
    assert (errand.producer, errand.is_committed, errand.has_own_epoch) == (producer, is_committed, False)
    assert errand.partitions == (P0, P1)


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_markers_of_version_2_have_the_next_epoch(is_committed: bool) -> None:
    room = Room()
    producer = room.reach(ONGOING)
    assert room.ended(producer, is_committed=is_committed) == after(producer)
    (errand,) = room.errands
    assert (errand.producer, errand.is_committed, errand.has_own_epoch) == (after(producer), is_committed, True)


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_a_transaction_is_complete_when_all_markers_are_written(is_committed: bool) -> None:
    room = Room()
    owner = room.ended(room.reach(ONGOING), is_committed=is_committed)
    begun_ms = room.state.start_ms
    room.write_markers()
    state = room.state
    assert state.status is (COMPLETE_COMMIT if is_committed else COMPLETE_ABORT)
    assert (state.partitions, state.writer, state.start_ms) == ((), owner, begun_ms)


def test_markers_are_reported_as_often_as_anybody_likes() -> None:
    room = Room()
    room.ended(room.reach(ONGOING))
    (errand,) = room.errands
    assert [room.report(errand), room.report(errand)] == [NONE, NONE]
    length = len(room.driver.log)
    assert room.report(errand) is NONE
    assert len(room.driver.log) == length


def test_markers_of_an_id_that_was_forgotten_are_nobodys() -> None:
    room = Room()
    room.ended(room.reach(ONGOING))
    (errand,) = room.errands
    assert Room().report(errand) is NONE


def test_a_late_report_does_not_complete_the_next_transaction_under_the_same_epoch() -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.reach(ONGOING)
    room.ended(producer)
    (first,) = room.errands
    room.write_markers()
    room.join(producer, P2)
    room.ended(producer)
    (second,) = room.errands
    assert (first.producer, first.is_committed) == (second.producer, second.is_committed)
    assert room.report(first) is NONE
    assert room.status() is PREPARE_COMMIT
    assert room.report(second) is NONE
    assert room.status() is COMPLETE_COMMIT


def test_a_report_that_cannot_be_written_is_refused() -> None:
    room = Room()
    room.ended(room.reach(ONGOING))
    (errand,) = room.errands
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.report(errand) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.status() is PREPARE_COMMIT
    room.driver.append_error = None
    assert room.report(errand) is NONE


def test_nothing_is_sent_for_an_outcome_that_could_not_be_written() -> None:
    room = Room()
    producer = room.reach(ONGOING)
    room.driver.append_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert room.end(producer, is_committed=True) is ErrorCode.NOT_COORDINATOR
    assert not room.errands
    room.driver.append_error = None
    assert room.ended(producer, is_committed=False) == after(producer)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_clients_do_not_hear_of_a_log(said: ErrorCode, heard: ErrorCode) -> None:
    room = Room()
    producer = room.reach(ONGOING)
    room.driver.append_error = said
    assert room.init().error_code is heard
    assert room.join(producer, P2) is heard
    assert room.end(producer, is_committed=True) is heard
    room.driver.append_error = None
    assert room.end(producer, is_committed=True) is NONE


# Late mail of version 2, and epochs that are used up.


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_a_late_request_does_not_end_the_next_transaction(is_committed: bool) -> None:
    room = Room()
    first = room.reach(ONGOING)
    second = room.ended(first)
    room.write_markers()
    room.join(second, P2)
    assert room.end(first, is_committed=is_committed) is FENCED
    assert room.join(first) is FENCED
    assert (room.status(), room.state.partitions) == (ONGOING, (P2,))
    third = room.ended(second)
    room.write_markers()
    assert room.end(first, is_committed=is_committed) is FENCED
    assert room.ended(second) == third


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_whoever_asked_for_an_epoch_has_no_transaction_to_end(is_committed: bool) -> None:
    room = Room()
    old = room.producer()
    new = room.producer(old)
    assert room.end(old, is_committed=is_committed) is FENCED
    assert room.state.owner == new


def test_an_abort_without_a_transaction_fences_what_is_under_way() -> None:
    room = Room()
    old = room.producer()
    new = room.ended(old, is_committed=False)
    assert (new, room.status()) == (after(old), COMPLETE_ABORT)
    assert not room.errands
    assert room.join(old) is FENCED
    assert room.ended(old, is_committed=False) == new
    assert room.end(old, is_committed=True) is INVALID
    assert room.join(new) is NONE


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_after_the_last_epoch_a_transaction_ends_under_one_id_and_the_next_begins_under_another(
    is_committed: bool,
) -> None:
    room = Room()
    old = room.wear_out(room.reach(ONGOING), EPOCH_LAST)
    new = room.ended(old, is_committed=is_committed)
    assert new == (1_001, 0)
    (errand,) = room.errands
    assert errand.producer == (1_000, EPOCH_MAX)
    assert room.describe().producer_id == 1_000
    assert room.end(old, is_committed=is_committed) is CONCURRENT
    assert room.end(old, is_committed=not is_committed) is INVALID
    room.driver.fail_over()
    assert room.end(old, is_committed=is_committed) is CONCURRENT
    assert room.errands == [errand]
    room.write_markers()
    for _ in range(2):
        assert room.ended(old, is_committed=is_committed) == new
        assert room.end(before(old), is_committed=is_committed) is UNKNOWN
        room.driver.fail_over()
    room.join(new)
    assert room.end(old, is_committed=is_committed) is UNKNOWN
    assert room.ended(new) == after(new)


def test_an_abort_without_a_transaction_uses_up_epochs_too() -> None:
    room = Room()
    old = room.wear_out(room.producer(), EPOCH_LAST)
    new = room.ended(old, is_committed=False)
    assert (new, room.status()) == ((1_001, 0), COMPLETE_ABORT)
    room.driver.fail_over()
    assert room.ended(old, is_committed=False) == new


def test_version_1_never_uses_up_an_epoch_by_ending() -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.wear_out(room.reach(ONGOING), EPOCH_LAST)
    room.ended(producer)
    assert room.errands[0].producer == producer
    room.write_markers()
    assert room.join(producer) is NONE


def test_without_a_producer_id_at_hand_the_client_comes_again() -> None:
    room = Room()
    old = room.wear_out(room.reach(ONGOING), EPOCH_LAST)
    room.ids.is_dry = True
    assert room.end(old, is_committed=True) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert room.status() is ONGOING
    room.ids.is_dry = False
    assert room.ended(old) == (1_001, 0)


def test_a_producer_may_take_up_version_2_between_two_transactions_and_give_it_up() -> None:
    room = Room(TransactionVersion.ZERO)
    first = room.reach(ONGOING)
    room.ended(first)
    room.write_markers()
    room.version = TransactionVersion.TWO
    room.join(first)
    second = room.ended(first)
    assert second == after(first)
    room.write_markers()
    room.version = TransactionVersion.ZERO
    room.join(second)
    assert room.ended(second) == second
    room.write_markers()
    assert room.ended(second) == second


def test_version_2_of_a_client_is_remembered_where_the_cluster_writes_version_0() -> None:
    room = Room()
    room.set(version=TransactionVersion.ZERO)
    producer = room.reach(ONGOING)
    new = room.ended(producer)
    room.driver.fail_over()
    assert room.end(producer, is_committed=True) is CONCURRENT
    room.write_markers()
    assert room.ended(producer) == new

"""InitProducerId: every state, with and without a pair, with epochs used up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, TIMEOUT_MS, Room, after, before
from tidelog.coordinator.transaction.states import (
    EPOCH_LAST,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    TransactionStatus,
    TransactionVersion,
)
from tidelog.model import ErrorCode, ProducerIdentity

IDLE = [TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT]
DECIDED = [TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT]
VERSIONS = [TransactionVersion.ZERO, TransactionVersion.TWO]


def test_a_new_id_gets_a_new_producer_id() -> None:
    room = Room()
    response = room.init()
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.NONE, 1_000, 0)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)
    assert (room.status(), room.state.timeout_ms, room.state.start_ms) == (TransactionStatus.EMPTY, TIMEOUT_MS, -1)
    assert room.producer(name="other") == (1_001, 0)


def test_a_pair_for_an_id_that_was_forgotten_is_replaced() -> None:
    assert Room().producer(ProducerIdentity(7, 3)) == (1_000, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", IDLE)
def test_an_incarnation_gets_the_next_epoch(status: TransactionStatus, version: TransactionVersion) -> None:
    room = Room(version)
    old = room.reach(status)
    assert room.producer(transaction_timeout_ms=5_000) == after(old)
    assert (room.status(), room.state.timeout_ms, room.state.start_ms) == (TransactionStatus.EMPTY, 5_000, -1)
    assert room.join(old) is ErrorCode.PRODUCER_FENCED
    assert room.end(old, is_committed=False) is ErrorCode.PRODUCER_FENCED
    assert room.init(old).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", IDLE)
def test_the_owner_asks_for_the_next_epoch(status: TransactionStatus, version: TransactionVersion) -> None:
    room = Room(version)
    old = room.reach(status)
    new = room.producer(old)
    assert new == after(old)
    assert room.join(old) is ErrorCode.PRODUCER_FENCED
    assert room.join(new) is ErrorCode.NONE


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_the_owner_asks_again_for_the_same_epoch(has_failed_over: bool) -> None:
    room = Room()
    old = room.producer()
    new = room.producer(old)
    if has_failed_over:
        room.driver.fail_over()
    assert [room.producer(old), room.producer(old)] == [new, new]
    later = room.producer(new)
    assert later == after(new)
    assert room.init(old).error_code is ErrorCode.PRODUCER_FENCED


def test_version_0_of_the_records_forgets_whom_to_answer_again_with_the_leadership() -> None:
    room = Room(TransactionVersion.ZERO)
    room.set(version=TransactionVersion.ZERO)
    old = room.producer()
    new = room.producer(old)
    assert room.producer(old) == new
    room.driver.fail_over()
    assert room.init(old).error_code is ErrorCode.PRODUCER_FENCED
    assert room.producer(new) == after(new)


def test_nobody_asks_again_for_what_somebody_else_asked() -> None:
    room = Room()
    old = room.producer()
    new = room.producer()
    assert room.init(old).error_code is ErrorCode.PRODUCER_FENCED
    assert room.state.owner == new


@pytest.mark.parametrize("pair", [(1_000, 7), (1_000, 2), (999, 3), (1_000, 0), (1_000, EPOCH_MAX)])
@pytest.mark.parametrize("status", list(TransactionStatus)[:6])
def test_a_pair_of_nobody_is_fenced_and_changes_nothing(status: TransactionStatus, pair: tuple[int, int]) -> None:
    room = Room()
    room.producer()
    room.producer()
    room.producer()
    room.producer()
    room.reach(status)
    length = len(room.driver.log)
    assert room.init(ProducerIdentity(*pair)).error_code is ErrorCode.PRODUCER_FENCED
    assert len(room.driver.log) == length


@pytest.mark.parametrize("has_pair", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", DECIDED)
def test_while_a_transaction_ends_everybody_waits(
    status: TransactionStatus,
    version: TransactionVersion,
    has_pair: bool,
) -> None:
    room = Room(version)
    owner = room.reach(status)
    length = len(room.driver.log)
    assert room.init(owner if has_pair else None).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(room.driver.log) == length
    room.write_markers()
    assert room.producer(owner if has_pair else None) == after(owner)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_incarnation_aborts_what_is_open(version: TransactionVersion) -> None:
    room = Room(version)
    zombie = room.reach(TransactionStatus.ONGOING)
    assert room.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.status() is TransactionStatus.PREPARE_ABORT
    (errand,) = room.errands
    assert (errand.producer, errand.is_committed, errand.partitions) == (after(zombie), False, (P0, P1))
    assert errand.has_own_epoch
    for _ in range(2):
        assert room.join(zombie) is ErrorCode.PRODUCER_FENCED
        assert room.end(zombie, is_committed=True) is ErrorCode.PRODUCER_FENCED
        assert room.end(zombie, is_committed=False) is ErrorCode.PRODUCER_FENCED
        assert room.init(zombie).error_code is ErrorCode.PRODUCER_FENCED
        room.write_markers()
    assert room.status() is TransactionStatus.COMPLETE_ABORT
    assert room.producer() == after(zombie, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_owner_aborts_what_is_open_and_goes_on(version: TransactionVersion) -> None:
    room = Room(version)
    owner = room.reach(TransactionStatus.ONGOING)
    assert room.init(owner).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.init(owner).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.errands[0].producer == after(owner)
    room.driver.fail_over()
    room.write_markers()
    new = room.producer(owner)
    assert new == after(owner)
    assert room.join(new) is ErrorCode.NONE
    assert room.init(owner).error_code is ErrorCode.PRODUCER_FENCED


def test_who_asks_again_after_it_has_begun_to_write_does_not_abort_that() -> None:
    room = Room()
    old = room.producer()
    new = room.producer(old)
    room.join(new)
    assert room.init(old).error_code is ErrorCode.PRODUCER_FENCED
    assert room.status() is TransactionStatus.ONGOING
    assert room.end(new, is_committed=True) is ErrorCode.NONE


def test_a_fence_says_nothing_of_epochs_where_the_cluster_knows_none() -> None:
    room = Room(TransactionVersion.ZERO)
    room.set(version=TransactionVersion.ONE)
    room.reach(TransactionStatus.ONGOING)
    room.init()
    assert not room.errands[0].has_own_epoch


# Epochs that are used up.


@pytest.mark.parametrize("has_pair", [False, True])
@pytest.mark.parametrize("status", IDLE)
def test_after_the_last_epoch_comes_another_producer_id(status: TransactionStatus, has_pair: bool) -> None:
    room = Room()
    old = room.wear_out(room.reach(status), EPOCH_LAST)
    assert room.producer(old if has_pair else None) == (1_001, 0)
    assert room.join(old) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    again = room.init(old)
    if has_pair:
        assert (again.producer_id, again.producer_epoch) == (1_001, 0)
    else:
        assert again.error_code is ErrorCode.PRODUCER_FENCED


def test_another_producer_id_is_told_again_after_a_fail_over() -> None:
    room = Room()
    old = room.wear_out(room.producer(), EPOCH_LAST)
    new = room.producer(old)
    room.driver.fail_over()
    assert room.producer(old) == new
    assert room.init(before(old)).error_code is ErrorCode.PRODUCER_FENCED
    assert room.producer(new) == after(new)


@pytest.mark.parametrize("has_pair", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_there_is_always_an_epoch_left_to_fence_with(version: TransactionVersion, has_pair: bool) -> None:
    room = Room(version)
    old = room.wear_out(room.reach(TransactionStatus.ONGOING), EPOCH_LAST)
    asking = old if has_pair else None
    assert room.init(asking).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.errands[0].producer == (1_000, EPOCH_MAX)
    room.write_markers()
    assert room.producer(asking) == (1_001, 0)
    if has_pair:
        assert room.producer(asking) == (1_001, 0)


def test_the_epoch_for_fencing_belongs_to_nobody() -> None:
    room = Room()
    room.wear_out(room.reach(TransactionStatus.ONGOING), EPOCH_LAST)
    room.init()
    room.write_markers()
    nobody = ProducerIdentity(1_000, EPOCH_MAX)
    assert room.state.owner == nobody
    assert room.join(nobody) is ErrorCode.PRODUCER_FENCED
    assert room.end(nobody, is_committed=False) is ErrorCode.PRODUCER_FENCED
    assert room.init(nobody).error_code is ErrorCode.PRODUCER_FENCED


# What makes no sense.


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, NO_TIMEOUT_MS])
def test_a_timeout_has_bounds(timeout_ms: int) -> None:
    room = Room()
    assert room.init(transaction_timeout_ms=timeout_ms).error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not room.driver.log
    assert room.init(transaction_timeout_ms=900_000).error_code is ErrorCode.NONE


@pytest.mark.parametrize("name", [None, ""])
def test_an_id_has_a_name(name: str | None) -> None:
    assert Room().init(name=name).error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("letter", ["i", "ä"])
def test_an_id_fits_into_the_key_of_a_record(letter: str) -> None:
    room, size = Room(), len(letter.encode())
    assert room.init(name=letter * (32_767 // size + 1)).error_code is ErrorCode.INVALID_REQUEST
    assert not room.driver.log
    assert room.init(name=letter * (32_767 // size)).error_code is ErrorCode.NONE


@pytest.mark.parametrize("pair", [(-1, 3), (1_000, -1)])
def test_half_a_pair_is_none(pair: tuple[int, int]) -> None:
    assert Room().init(ProducerIdentity(*pair)).error_code is ErrorCode.INVALID_REQUEST


def test_without_a_producer_id_at_hand_the_client_comes_again() -> None:
    room = Room()
    room.ids.is_dry = True
    assert room.init().error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not room.driver.log
    room.ids.is_dry = False
    old = room.wear_out(room.producer(), EPOCH_LAST)
    room.ids.is_dry = True
    assert room.init(old).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert room.state.owner == old


def test_an_epoch_is_not_used_up_while_nothing_can_be_written() -> None:
    room = Room()
    zombie = room.reach(TransactionStatus.ONGOING)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(1_000):
        assert room.init().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not room.errands
    room.driver.append_error = None
    assert room.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.errands[0].producer == after(zombie)
    room.write_markers()
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(1_000):
        assert room.init().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    room.driver.append_error = None
    assert room.producer() == after(zombie, 2)


def test_time_goes_on_in_the_records_of_an_id_whatever_the_clock_says() -> None:
    room = Room()
    room.producer()
    first_ms = room.state.last_update_ms
    room.driver.skew_ms = -1_000_000
    room.producer()
    room.producer()
    assert room.state.last_update_ms == first_ms + 2
    assert room.state == replace(room.state, transactional_id=NAME)

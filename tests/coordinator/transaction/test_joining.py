"""Partitions of a transaction: added by clients (version 1) or by their leaders (version 2), and asked about."""

from __future__ import annotations

import pytest

from tests.coordinator.transaction.transaction_room import P0, P1, P2, Room, after, before
from tidelog.coordinator.transaction.joining import PARTITIONS_MAX
from tidelog.coordinator.transaction.states import EPOCH_LAST, TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition

IDLE = [TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT]
DECIDED = [TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT]
WRITTEN = list(TransactionStatus)[:6]
VERSIONS = [TransactionVersion.ZERO, TransactionVersion.TWO]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", IDLE)
def test_the_first_partition_begins_a_transaction(status: TransactionStatus, version: TransactionVersion) -> None:
    room = Room(version)
    producer = room.reach(status)
    room.driver.wait_ms(1_000)
    assert room.join_codes(producer, P2, P0) == {P2: ErrorCode.NONE, P0: ErrorCode.NONE}
    state = room.state
    assert (state.status, state.partitions, state.writer) == (TransactionStatus.ONGOING, (P0, P2), producer)
    assert state.start_ms == room.driver.now.wall_ms
    assert state.client_version is version


def test_more_partitions_come_to_the_others() -> None:
    room = Room()
    producer = room.producer()
    room.join(producer, P1)
    begun_ms = room.state.start_ms
    room.driver.wait_ms(1_000)
    room.join(producer, P0, P1)
    assert (room.state.partitions, room.state.start_ms) == ((P0, P1), begun_ms)
    assert room.state.last_update_ms == begun_ms + 1_000


@pytest.mark.parametrize("partitions", [(P0,), (P1, P0), (P1, P1)])
def test_what_is_there_already_is_not_written_again(partitions: tuple[TopicPartition, ...]) -> None:
    room = Room()
    producer = room.producer()
    room.join(producer, P0, P1)
    length = len(room.driver.log)
    assert room.join(producer, *partitions) is ErrorCode.NONE
    assert len(room.driver.log) == length


def test_no_partition_begins_no_transaction() -> None:
    room = Room()
    assert room.join_codes(room.producer()) == {}
    assert room.status() is TransactionStatus.EMPTY


@pytest.mark.parametrize("is_verification", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", DECIDED)
def test_while_a_transaction_ends_the_next_waits(
    status: TransactionStatus,
    version: TransactionVersion,
    is_verification: bool,
) -> None:
    room = Room(version)
    owner = room.reach(status)
    assert room.join(owner, is_verification=is_verification) is ErrorCode.CONCURRENT_TRANSACTIONS
    room.write_markers()
    assert room.join(owner) is ErrorCode.NONE


def test_the_next_producer_id_waits_while_the_last_transaction_of_the_other_ends() -> None:
    room = Room()
    old = room.wear_out(room.reach(TransactionStatus.ONGOING), EPOCH_LAST)
    new = room.ended(old)
    assert new == (1_001, 0)
    assert room.join(new) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.init(new).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.join(old) is ErrorCode.PRODUCER_FENCED
    room.write_markers()
    assert room.join(new) is ErrorCode.NONE


@pytest.mark.parametrize("is_verification", [False, True])
@pytest.mark.parametrize("status", WRITTEN)
def test_strangers_are_refused_in_every_state(status: TransactionStatus, is_verification: bool) -> None:
    room = Room()
    owner = room.reach(status)
    length = len(room.driver.log)
    codes = [
        room.join(pair, is_verification=is_verification)
        for pair in (before(owner), after(owner), ProducerIdentity(owner.producer_id + 1, owner.producer_epoch))
    ]
    fenced = ErrorCode.PRODUCER_FENCED
    assert codes == [fenced, fenced, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert len(room.driver.log) == length


@pytest.mark.parametrize("is_verification", [False, True])
def test_an_id_that_nobody_knows_has_no_producer(is_verification: bool) -> None:
    room = Room()
    pair = ProducerIdentity(1_000, 0)
    assert room.join(pair, is_verification=is_verification) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert room.join(pair, name="", is_verification=is_verification) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("status", IDLE)
def test_without_a_transaction_no_partition_is_part_of_it(status: TransactionStatus) -> None:
    room = Room()
    producer = room.reach(status)
    length = len(room.driver.log)
    assert room.join(producer, P0, is_verification=True) is ErrorCode.TRANSACTION_ABORTABLE
    assert len(room.driver.log) == length


def test_a_leader_hears_which_partitions_are_part_of_a_transaction() -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.producer()
    room.join(producer, P0, P1)
    codes = room.join_codes(producer, P0, P2, is_verification=True)
    assert codes == {P0: ErrorCode.NONE, P2: ErrorCode.TRANSACTION_ABORTABLE}
    assert room.state.partitions == (P0, P1)


def test_what_does_not_fit_into_a_record_changes_nothing() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.append_error = ErrorCode.RECORD_LIST_TOO_LARGE
    assert room.join(producer, P2) is ErrorCode.UNKNOWN_SERVER_ERROR
    room.driver.append_error = None
    assert room.state.partitions == (P0, P1)
    assert room.join(producer, P2, is_verification=True) is ErrorCode.TRANSACTION_ABORTABLE
    assert room.end(producer, is_committed=True) is ErrorCode.NONE


def test_a_transaction_has_a_bounded_number_of_partitions() -> None:
    room = Room()
    producer = room.producer()
    most = tuple(TopicPartition("orders", index) for index in range(PARTITIONS_MAX))
    assert room.join(producer, *most) is ErrorCode.NONE
    assert room.join(producer, P2) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert room.state.partitions == most
    assert room.end(producer, is_committed=True) is ErrorCode.NONE

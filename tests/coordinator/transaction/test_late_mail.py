"""Producers of version 1 have one epoch in all transactions: what they sent by a connection they gave up must not touch a later one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.transaction.transaction_room import NAME, OLD_END, P0, P1, P2, Room, after
from tidelog.coordinator import Client, Command
from tidelog.coordinator.transaction.checks import DOUBT_MS
from tidelog.coordinator.transaction.states import TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.wire.messages.end_txn import EndTxnRequest

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
OLD, NEW = 5, 7


def second_transaction() -> tuple[Room, ProducerIdentity]:
    """The first one was ended by another connection than it was begun by, and the second is open."""
    room = Room(TransactionVersion.ZERO)
    producer = room.producer(connection=OLD)
    room.join(producer, P0, connection=OLD)
    room.ended(producer, connection=NEW)
    room.write_markers()
    assert room.join(producer, P1, connection=NEW) is NONE
    return room, producer


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_late_end_does_not_end_the_next_transaction(is_committed: bool) -> None:
    room, producer = second_transaction()
    assert room.end(producer, is_committed=is_committed, connection=OLD) is CONCURRENT
    assert (room.status(), room.state.partitions) == (TransactionStatus.ONGOING, (P1,))
    assert room.end(producer, is_committed=not is_committed, connection=NEW) is NONE


def test_a_late_partition_does_not_come_to_the_next_transaction() -> None:
    room, producer = second_transaction()
    assert room.join(producer, P2, connection=OLD) is CONCURRENT
    assert room.state.partitions == (P1,)


def test_a_late_partition_does_not_begin_a_transaction() -> None:
    room, producer = second_transaction()
    room.ended(producer, connection=NEW)
    room.write_markers()
    assert room.join(producer, P2, connection=OLD) is CONCURRENT
    assert room.status() is TransactionStatus.COMPLETE_COMMIT


def test_a_late_request_for_an_epoch_does_not_abort_the_next_transaction() -> None:
    room, producer = second_transaction()
    assert room.init(producer, connection=OLD).error_code is CONCURRENT
    assert room.status() is TransactionStatus.ONGOING


@pytest.mark.parametrize("first", ["join", "end", "init"])
@pytest.mark.parametrize("second", ["join", "end", "init"])
def test_two_late_requests_do_no_more_than_one(first: str, second: str) -> None:
    room, producer = second_transaction()
    requests: dict[str, Any] = {
        "join": lambda: room.join(producer, P2, connection=OLD),
        "end": lambda: room.end(producer, is_committed=False, connection=OLD),
        "init": lambda: room.init(producer, connection=OLD).error_code,
    }
    assert requests[first]() is CONCURRENT
    room.driver.wait_ms(DOUBT_MS - 1)
    assert requests[second]() is CONCURRENT
    assert (room.status(), room.state.partitions, room.errands) == (TransactionStatus.ONGOING, (P1,), [])
    assert room.end(producer, is_committed=True, connection=NEW) is NONE


def test_who_comes_again_by_the_old_connection_is_alive() -> None:
    room, producer = second_transaction()
    assert room.join(producer, P2, connection=OLD) is CONCURRENT
    room.driver.wait_ms(DOUBT_MS)
    assert room.join(producer, P2, connection=OLD) is NONE
    assert room.join(producer, P0, connection=OLD) is NONE
    assert room.join(producer, P0, connection=NEW) is NONE
    assert room.end(producer, is_committed=True, connection=OLD) is CONCURRENT
    room.driver.wait_ms(DOUBT_MS)
    assert room.end(producer, is_committed=True, connection=OLD) is NONE


def test_who_asks_again_and_again_by_the_old_connection_is_heard_after_a_second() -> None:
    room, producer = second_transaction()
    asked = 0
    while room.join(producer, P2, connection=OLD) is CONCURRENT:
        room.driver.wait_ms(100)
        asked += 1
    assert asked == DOUBT_MS // 100


def test_what_is_too_late_is_told_at_once() -> None:
    room, producer = second_transaction()
    late = EndTxnRequest(transactional_id=NAME, **producer._asdict(), committed=True)
    command = Command(0, late, Client("client", "/127.0.0.1", OLD_END, OLD))
    assert room.driver.machine.decide(command, room.driver.now).is_told_at_once


def test_each_connection_that_was_given_up_is_doubted() -> None:
    room, producer = second_transaction()
    assert room.join(producer, P2, connection=OLD) is CONCURRENT
    assert room.join(producer, P2, connection=OLD - 1) is CONCURRENT
    assert room.state.partitions == (P1,)


@pytest.mark.parametrize("connection", [NEW, NEW + 1, 0])
def test_the_same_connection_a_later_one_and_brokers_are_heard(connection: int) -> None:
    room, producer = second_transaction()
    assert room.join(producer, P2, connection=connection) is NONE
    assert room.end(producer, is_committed=True, connection=connection) is NONE


def test_brokers_do_not_count_as_the_newest_connection() -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.producer()
    room.join(producer, P0, connection=OLD)
    room.join(producer, P1)
    assert room.end(producer, is_committed=True, connection=OLD) is NONE


def test_brokers_do_not_make_an_old_connection_the_newest() -> None:
    room, producer = second_transaction()
    room.join(producer, P2)
    assert room.end(producer, is_committed=True, connection=OLD) is CONCURRENT


def test_an_incarnation_may_have_the_older_connection() -> None:
    room, producer = second_transaction()
    assert room.init(connection=OLD).error_code is CONCURRENT  # since it aborts the other's transaction
    room.write_markers()
    new = room.producer(connection=OLD)
    assert room.join(new, P0, connection=OLD) is NONE
    assert room.end(new, is_committed=True, connection=OLD) is NONE
    assert room.join(producer, P0, connection=NEW) is ErrorCode.PRODUCER_FENCED


def test_ids_do_not_disturb_each_other() -> None:
    room, _ = second_transaction()
    other = room.producer(name="other", connection=OLD)
    assert room.join(other, P0, name="other", connection=OLD) is NONE


def test_a_stranger_by_a_new_connection_does_not_make_the_owner_late() -> None:
    room, producer = second_transaction()
    assert room.end(after(producer), is_committed=True, connection=NEW + 1) is ErrorCode.PRODUCER_FENCED
    assert room.end(producer, is_committed=True, connection=NEW) is NONE


def test_what_could_not_be_written_was_not_heard() -> None:
    room, producer = second_transaction()
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.join(producer, P2, connection=NEW + 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    room.driver.append_error = None
    assert room.join(producer, P2, connection=NEW) is NONE


def test_questions_of_leaders_are_never_late() -> None:
    room, producer = second_transaction()
    assert room.join(producer, P1, connection=OLD, is_verification=True) is NONE


def test_version_2_needs_no_connections() -> None:
    room = Room()
    producer = room.producer()
    room.join(producer, P0, connection=NEW)
    assert room.end(producer, is_committed=True, connection=OLD) is NONE


def test_what_was_heard_is_forgotten_with_the_id() -> None:
    room, producer = second_transaction()
    room.ended(producer, connection=NEW)
    room.write_markers()
    room.driver.wait_ms(room.settings.id_expiration_ms + room.settings.expiry_check_ms)
    room.ids.next_id = producer.producer_id
    assert room.producer(connection=OLD) == producer
    assert room.join(producer, P0, connection=OLD) is NONE


@pytest.mark.parametrize("ask", ["join", "end"])
def test_a_connection_is_heard_though_there_is_nothing_to_write(ask: str) -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.producer()
    room.join(producer, P0, connection=OLD)
    requests: dict[str, Any] = {
        "join": lambda connection: room.join(producer, P0, connection=connection),
        "end": lambda connection: room.end(producer, is_committed=True, connection=connection),
    }
    if ask == "end":
        room.ended(producer, connection=OLD)
        room.write_markers()
    assert requests[ask](NEW) is NONE
    assert requests[ask](OLD) is CONCURRENT

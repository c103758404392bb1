"""Another broker takes over, in every state: what was decided stays so, and what is left to do is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, P2, TIMEOUT_MS, Room, after
from tidelog.coordinator import Client, Command, MalformedRecord, Written
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.coordinator.transaction.requests import JoinRequest, JoinResponse, MarkersWrittenRequest
from tidelog.coordinator.transaction.states import TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.wire.definition import Request
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest

VERSIONS = [TransactionVersion.ZERO, TransactionVersion.TWO]
WRITTEN = list(TransactionStatus)[:6]
NONE = ErrorCode.NONE


@pytest.mark.parametrize("cluster", list(TransactionVersion))
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("status", WRITTEN)
def test_every_state_is_as_it_was(
    status: TransactionStatus, version: TransactionVersion, cluster: TransactionVersion
) -> None:
    room = Room(version)
    room.set(version=cluster)
    room.reach(status)
    described, errands, timers = room.describe(), room.errands, room.driver.timers.copy()
    room.driver.fail_over()
    assert room.describe() == described
    assert room.errands == errands
    assert room.driver.timers == timers


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_markers_that_were_partly_written_are_sent_again_until_all_are(
    version: TransactionVersion,
    is_committed: bool,
) -> None:
    room = Room(version)
    owner = room.ended(room.reach(TransactionStatus.ONGOING), is_committed=is_committed)
    (errand,) = room.errands
    for _ in range(3):
        room.driver.fail_over()
        assert room.errands == [errand]
        assert room.join(owner) is ErrorCode.CONCURRENT_TRANSACTIONS
    room.write_markers()
    room.driver.fail_over()
    assert not room.errands
    assert room.join(owner) is NONE


def test_the_report_of_an_errand_from_before_the_fail_over_counts() -> None:
    """Its markers are written, whoever has sent them."""
    room = Room()
    room.ended(room.reach(TransactionStatus.ONGOING))
    (errand,) = room.errands
    room.driver.fail_over()
    assert room.report(errand) is NONE
    assert room.status() is TransactionStatus.COMPLETE_COMMIT


def test_a_decision_that_was_lost_with_its_leader_was_none() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.end(producer, is_committed=True)
    del room.driver.log[-1]
    room.driver.fail_over()
    assert not room.errands
    assert room.ended(producer, is_committed=False) == after(producer)
    assert not room.errands[0].is_committed


def test_the_next_epoch_that_was_lost_with_its_leader_is_given_out_again() -> None:
    room = Room()
    producer = room.producer()
    assert room.producer(producer) == after(producer)
    del room.driver.log[-1]
    room.driver.fail_over()
    assert room.producer(producer) == after(producer)


def test_an_open_transaction_goes_on() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.fail_over()
    assert room.join(producer, P2) is NONE
    assert room.ended(producer) == after(producer)
    assert room.errands[0].partitions == (P0, P1, P2)


def test_many_ids_are_found_again() -> None:
    room = Room()
    for number in range(30):
        name = f"t{number}"
        producer = room.producer(name=name)
        if number % 3:
            room.join(producer, P0, name=name)
        if number % 3 == 2:
            room.end(producer, is_committed=bool(number % 2), name=name)
    room.driver.fail_over()
    assert {errand.transactional_id: errand.is_committed for errand in room.errands} == {
        f"t{number}": bool(number % 2) for number in range(2, 30, 3)
    }
    room.driver.wait_ms(TIMEOUT_MS)
    assert len(room.errands) == 20
    assert len(room.listed()) == 30


def test_a_tombstone_forgets() -> None:
    room = Room()
    room.producer()
    room.driver.log.append(room.driver.log[0]._replace(value=None))
    room.driver.fail_over()
    assert room.listed() == []
    assert room.producer() == (1_001, 0)


def test_records_of_unknown_kinds_are_passed_over() -> None:
    room = Room()
    room.driver.log.append(CoordinatorRecord(b"\0\1\0\1t", b"new"))
    room.driver.fail_over()
    assert room.listed() == []


def test_damage_is_told_and_changes_nothing() -> None:
    room = Room()
    room.producer()
    damaged = room.driver.log[0]._replace(value=b"\0\1damage")
    with pytest.raises(MalformedRecord):
        room.driver.machine.replay(damaged, Written(1))
    assert room.listed() == [NAME]


# Requests that come too early or to the wrong broker.

PRODUCER = ProducerIdentity(1_000, 0)
REQUESTS: list[tuple[Request[Any], Any]] = [
    (InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=1), lambda r: (r.error_code, r.producer_id)),
    (
        EndTxnRequest(transactional_id=NAME, producer_id=1_000, producer_epoch=0, committed=True),
        lambda r: (r.error_code, r.producer_id),
    ),
    (ListTransactionsRequest(), lambda r: (r.error_code, -1)),
    (
        DescribeTransactionsRequest(transactional_ids=(NAME,)),
        lambda r: (r.transaction_states[0].error_code, r.transaction_states[0].producer_id),
    ),
    (MarkersWrittenRequest(transactional_id=NAME, producer=PRODUCER, decided_ms=1), lambda r: (r.code, -1)),
]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize(("request_", "seen"), REQUESTS)
def test_every_request_can_be_refused(request_: Request[Any], seen: Any, code: ErrorCode) -> None:
    command = Command(1, request_, Client("client", "/127.0.0.1", 0))
    assert seen(Room().driver.machine.refusal(command, code)) == (code, -1)


def test_a_join_is_refused_for_all_partitions() -> None:
    request = JoinRequest(transactional_id=NAME, producer=PRODUCER, partitions=(P0, P2))
    command = Command(1, request, Client("client", "/127.0.0.1", 5))
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert Room().driver.machine.refusal(command, code) == JoinResponse(codes={P0: code, P2: code})


@pytest.mark.parametrize("version", range(7))
def test_a_fence_is_called_so_in_every_version(version: int) -> None:
    """What older clients call it, their handlers know."""
    room = Room(TransactionVersion.ZERO)
    stale = room.producer()
    room.producer()
    assert room.init(stale, version=version).error_code is ErrorCode.PRODUCER_FENCED
    assert room.join(stale, version=version) is ErrorCode.PRODUCER_FENCED
    assert room.end(stale, is_committed=True, version=version) is ErrorCode.PRODUCER_FENCED

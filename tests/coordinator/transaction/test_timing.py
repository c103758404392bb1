"""What time brings: transactions that take too long are aborted, ids that nobody uses are forgotten."""

from __future__ import annotations

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, P2, TIMEOUT_MS, Room, after
from tidelog.coordinator import TimerChange
from tidelog.coordinator.transaction.records import tombstone
from tidelog.coordinator.transaction.states import EPOCH_LAST, EPOCH_MAX, TransactionStatus, TransactionVersion
from tidelog.coordinator.transaction.timing import EXPIRED_AT_ONCE, ExpiryTimer
from tidelog.model import ErrorCode

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
VERSIONS = [TransactionVersion.ZERO, TransactionVersion.TWO]
DAY_MS = 86_400_000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_takes_too_long_is_aborted(version: TransactionVersion) -> None:
    room = Room(version)
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS - 1)
    assert room.status() is TransactionStatus.ONGOING
    room.driver.wait_ms(1)
    (errand,) = room.errands
    assert (errand.producer, errand.is_committed, errand.partitions) == (after(producer), False, (P0, P1))
    assert room.status() is TransactionStatus.PREPARE_ABORT


def test_partitions_that_come_later_do_not_put_it_off() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS - 1)
    room.join(producer, P2)
    room.driver.wait_ms(1)
    assert room.errands[0].partitions == (P0, P1, P2)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_transaction_has_its_own_time(version: TransactionVersion) -> None:
    room = Room(version)
    first = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS - 1)
    second = room.ended(first)
    room.write_markers()
    room.join(second)
    room.driver.wait_ms(TIMEOUT_MS - 1)
    assert room.status() is TransactionStatus.ONGOING
    room.driver.wait_ms(1)
    assert room.status() is TransactionStatus.PREPARE_ABORT


@pytest.mark.parametrize("status", [status for status in list(TransactionStatus)[:6] if status.name != "ONGOING"])
def test_only_open_transactions_take_too_long(status: TransactionStatus) -> None:
    room = Room()
    room.reach(status)
    room.driver.errands.clear()
    room.driver.wait_ms(10 * TIMEOUT_MS)
    assert room.status() is status
    assert not room.errands


def test_the_old_producer_is_fenced() -> None:
    room = Room(TransactionVersion.ZERO)
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS)
    for _ in range(2):
        assert room.join(producer) is FENCED
        assert room.join(producer, is_verification=True) is FENCED
        assert room.end(producer, is_committed=True) is FENCED
        assert room.end(producer, is_committed=False) is FENCED
        room.write_markers()
    assert room.status() is TransactionStatus.COMPLETE_ABORT


@pytest.mark.parametrize("has_failed_over", [False, True])
def test_a_producer_of_version_2_aborts_what_is_aborted_and_goes_on(has_failed_over: bool) -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS)
    assert room.join(producer) is FENCED
    assert room.end(producer, is_committed=True) is ErrorCode.INVALID_TXN_STATE
    assert room.end(producer, is_committed=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    if has_failed_over:
        room.driver.fail_over()
    room.write_markers()
    assert room.end(producer, is_committed=True) is ErrorCode.INVALID_TXN_STATE
    new = room.ended(producer, is_committed=False)
    assert new == after(producer)
    assert room.join(new) is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_whose_time_was_over_asks_for_another_epoch(version: TransactionVersion) -> None:
    room = Room(version)
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(TIMEOUT_MS)
    assert room.init(producer).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    room.write_markers()
    new = room.producer(producer)
    assert new == after(producer)
    assert room.join(new) is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_epoch_is_fenced_for_good(version: TransactionVersion) -> None:
    room = Room(version)
    producer = room.wear_out(room.reach(TransactionStatus.ONGOING), EPOCH_LAST)
    room.driver.wait_ms(TIMEOUT_MS)
    assert room.errands[0].producer == (producer.producer_id, EPOCH_MAX)
    room.write_markers()
    assert room.end(producer, is_committed=False) is FENCED
    assert room.init(producer).error_code is FENCED
    assert room.producer() == (1_001, 0)


def test_an_abort_that_could_not_be_written_is_tried_again() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.driver.wait_ms(TIMEOUT_MS + 60_000)
    assert room.status() is TransactionStatus.ONGOING
    assert room.end(producer, is_committed=True) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    room.driver.append_error = None
    room.driver.wait_ms(500)
    assert room.errands[0].producer == after(producer)


# Clocks.


def test_a_fail_over_does_not_give_a_transaction_more_time() -> None:
    room = Room()
    room.reach(TransactionStatus.ONGOING)
    room.driver.wait_ms(20_000)
    room.driver.fail_over()
    room.driver.wait_ms(20_000)
    room.driver.fail_over()
    room.driver.wait_ms(19_999)
    assert room.status() is TransactionStatus.ONGOING
    room.driver.wait_ms(1)
    assert room.status() is TransactionStatus.PREPARE_ABORT


def test_a_broker_whose_clock_is_ahead_does_not_abort_at_once() -> None:
    room = Room()
    room.reach(TransactionStatus.ONGOING)
    room.driver.skew_ms = DAY_MS
    room.driver.fail_over()
    room.driver.wait_ms(room.settings.abort_check_ms - 1)
    assert room.status() is TransactionStatus.ONGOING
    room.driver.wait_ms(1)
    assert room.status() is TransactionStatus.PREPARE_ABORT


def test_a_broker_whose_clock_is_behind_does_not_wait_for_ever() -> None:
    room = Room()
    room.reach(TransactionStatus.ONGOING)
    room.driver.skew_ms = -DAY_MS
    room.driver.fail_over()
    room.driver.wait_ms(TIMEOUT_MS - 1)
    assert room.status() is TransactionStatus.ONGOING
    room.driver.wait_ms(1)
    assert room.status() is TransactionStatus.PREPARE_ABORT


def test_a_clock_that_is_put_forward_does_not_end_a_transaction() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.ONGOING)
    room.driver.skew_ms = DAY_MS
    room.join(producer, P2)
    room.driver.wait_ms(TIMEOUT_MS - 1)
    assert room.status() is TransactionStatus.ONGOING


def test_a_short_timeout_is_not_made_longer_by_a_fail_over() -> None:
    room = Room()
    producer = room.producer(transaction_timeout_ms=1_000)
    room.join(producer)
    room.driver.fail_over()
    room.driver.wait_ms(1_000)
    assert room.status() is TransactionStatus.PREPARE_ABORT


# Ids that nobody uses.

IDLE = [TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT]


@pytest.mark.parametrize("has_failed_over", [False, True])
@pytest.mark.parametrize("status", IDLE)
def test_an_id_that_nobody_uses_is_forgotten(status: TransactionStatus, has_failed_over: bool) -> None:
    room = Room()
    producer = room.reach(status)
    if has_failed_over:
        room.driver.fail_over()
    room.driver.wait_ms(7 * DAY_MS - 1)
    assert room.describe().error_code is NONE
    room.driver.wait_ms(2 * room.settings.expiry_check_ms)
    assert room.describe().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert room.driver.log[-1].value is None
    assert room.join(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert room.producer(producer) == (1_001, 0)


@pytest.mark.parametrize("status", [TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT])
def test_an_id_whose_transaction_is_ending_is_not_forgotten(status: TransactionStatus) -> None:
    room = Room()
    room.reach(status)
    room.driver.wait_ms(30 * DAY_MS)
    assert room.status() is status


def test_whoever_uses_its_id_keeps_it() -> None:
    room = Room()
    producer = room.producer()
    room.producer(name="other")
    for _ in range(10):
        room.driver.wait_ms(DAY_MS)
        producer = room.producer(producer)
    assert room.describe().error_code is NONE
    assert room.describe("other").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_ids_are_forgotten_a_few_at_a_time() -> None:
    room = Room()
    for number in range(EXPIRED_AT_ONCE + 1):
        room.producer(name=f"t{number}")
    room.driver.monotonic_ms = 8 * DAY_MS
    room.producer()
    decision = room.driver.machine.on_timer(ExpiryTimer(), room.driver.now)
    assert decision.records == tuple(tombstone(f"t{number}") for number in range(EXPIRED_AT_ONCE))
    assert decision.timers == (TimerChange(ExpiryTimer(), room.driver.monotonic_ms),)
    room.driver.wait_ms(0)
    assert room.listed() == [NAME]
    assert room.driver.timers[ExpiryTimer()] == room.driver.monotonic_ms + room.settings.expiry_check_ms


def test_ids_that_are_in_use_are_looked_at_now_and_then() -> None:
    room = Room()
    for number in range(EXPIRED_AT_ONCE + 1):
        room.producer(name=f"t{number}")
    for now_ms in (0.0, 1_000.0):
        room.driver.monotonic_ms = now_ms
        decision = room.driver.machine.on_timer(ExpiryTimer(), room.driver.now)
        assert not decision.records
        assert decision.timers == (TimerChange(ExpiryTimer(), now_ms + room.settings.expiry_check_ms),)


def test_one_clock_in_the_future_does_not_keep_the_ids_after_it() -> None:
    room = Room()
    room.driver.skew_ms = 365 * DAY_MS
    room.producer(name="future")
    room.driver.skew_ms = 0
    room.producer()
    room.driver.wait_ms(8 * DAY_MS)
    assert room.listed() == ["future"]


def test_ids_are_kept_while_nothing_can_be_written() -> None:
    room = Room()
    room.producer()
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.driver.wait_ms(7 * DAY_MS + room.settings.expiry_check_ms)
    assert room.listed() == [NAME]
    room.driver.append_error = None
    room.driver.wait_ms(500)
    assert room.listed() == []

"""The first batch of a transaction gets in only with the guard that its coordinator was asked with (KIP-890)."""

from __future__ import annotations

import pytest

from tests.storage.support import NOW, marker, new_disk, open_log, produced
from tidelog.model import ApiError, ErrorCode, ProducerIdentity
from tidelog.records.control import MarkerType
from tidelog.storage import Guard, Origin, PartitionLog
from tidelog.storage.verification import IDLE_MAX, Verification

SEQUENCE_MAX = (1 << 31) - 1


@pytest.fixture
def log() -> PartitionLog:
    return open_log(new_disk())


def begin(
    log: PartitionLog, *, producer_id: int = 9, epoch: int = 0, sequence: int = 0, has_own_epoch: bool = False
) -> Guard | None:
    return log.verification.begin(
        log.producers.get(producer_id),
        ProducerIdentity(producer_id, epoch),
        sequence=sequence,
        has_own_epoch=has_own_epoch,
    )


def send(log: PartitionLog, guard: Guard | None, *, epoch: int = 0, sequence: int = 0) -> int:
    sent = produced("v", epoch=epoch, sequence=sequence, transactional=True)
    return log.append_as_leader(sent, leader_epoch=0, now_ms=NOW, guard=guard).base_offset


def refusal(log: PartitionLog, guard: Guard | None, *, epoch: int = 0, sequence: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        send(log, guard, epoch=epoch, sequence=sequence)
    return refused.value.code


def end(log: PartitionLog, *, epoch: int = 0, has_own_epoch: bool = False) -> bool:
    """Whether the marker was there already."""
    sent = marker(MarkerType.ABORT, epoch=epoch)
    return log.append_marker(sent, leader_epoch=0, now_ms=NOW, has_own_epoch=has_own_epoch).is_duplicate


def test_the_first_batch_of_a_transaction_needs_a_guard(log: PartitionLog) -> None:
    assert refusal(log, None) is ErrorCode.INVALID_TXN_STATE
    assert log.log_end_offset == 0
    assert send(log, begin(log)) == 0


def test_in_an_open_transaction_nobody_is_asked(log: PartitionLog) -> None:
    send(log, begin(log))
    assert begin(log, sequence=1) is None
    assert send(log, None, sequence=1) == 1


def test_a_transaction_that_is_open_under_an_older_epoch_is_another_one(log: PartitionLog) -> None:
    send(log, begin(log))
    assert refusal(log, None, epoch=1) is ErrorCode.INVALID_TXN_STATE
    assert begin(log, epoch=1) is not None


def test_a_late_batch_of_a_transaction_that_has_ended_is_refused(log: PartitionLog) -> None:
    send(log, begin(log))
    end(log)
    assert refusal(log, None, sequence=1) is ErrorCode.INVALID_TXN_STATE
    assert log.last_stable_offset(log.log_end_offset) == 2


def test_a_retry_of_a_batch_of_a_transaction_that_has_ended_is_answered_as_the_first_time(log: PartitionLog) -> None:
    send(log, begin(log))
    end(log)
    sent = produced("v", transactional=True)
    assert log.append_as_leader(sent, leader_epoch=0, now_ms=NOW).is_duplicate


def test_a_marker_that_comes_while_the_coordinator_is_asked_makes_the_answer_worthless(log: PartitionLog) -> None:
    guard = begin(log)
    end(log)
    assert refusal(log, guard) is ErrorCode.INVALID_TXN_STATE


def test_the_guard_of_an_earlier_transaction_is_not_that_of_a_later_one(log: PartitionLog) -> None:
    stale = begin(log)
    end(log)
    current = begin(log)  # The same producer, the same epoch, the same sequence.
    assert refusal(log, stale) is ErrorCode.INVALID_TXN_STATE
    assert send(log, current) == 1


def test_two_batches_that_are_asked_about_at_once_share_the_answer(log: PartitionLog) -> None:
    first, second = begin(log), begin(log, sequence=1)
    assert first is second
    assert send(log, first) == 0
    assert send(log, second, sequence=1) == 1


def test_no_batch_overtakes_one_whose_coordinator_could_not_be_asked(log: PartitionLog) -> None:
    first = begin(log)
    assert first is not None
    log.verification.release(first)  # A coordinator that moves: the client sends the batch again.
    second = begin(log, sequence=1)
    assert refusal(log, second, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = begin(log)
    assert send(log, again) == 0
    assert send(log, second, sequence=1) == 1


def test_a_new_epoch_begins_its_sequences_anew(log: PartitionLog) -> None:
    begin(log, sequence=7)
    guard = begin(log, epoch=1, sequence=9)
    assert send(log, guard, epoch=1, sequence=9) == 0


def test_a_batch_before_the_end_of_all_sequences_is_before_the_one_after_it(log: PartitionLog) -> None:
    before = begin(log, sequence=SEQUENCE_MAX)
    after = begin(log, sequence=0)
    assert refusal(log, after, sequence=0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, before, sequence=SEQUENCE_MAX) == 0
    assert send(log, after, sequence=0) == 1


def test_an_unknown_producer_may_begin_anywhere_unless_each_transaction_has_its_own_epoch(log: PartitionLog) -> None:
    guard = begin(log, epoch=3, sequence=5, has_own_epoch=True)
    assert refusal(log, guard, epoch=3, sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.verification.clear()
    assert send(log, begin(log, epoch=3, sequence=5), epoch=3, sequence=5) == 0


def test_a_producer_of_whom_only_a_marker_is_known_begins_with_sequence_0(log: PartitionLog) -> None:
    end(log, epoch=4)
    guard = begin(log, epoch=4, sequence=1)
    assert refusal(log, guard, epoch=4, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, begin(log, epoch=4), epoch=4) == 1


def test_what_a_coordinator_writes_itself_needs_no_guard(log: PartitionLog) -> None:
    sent = produced("v", transactional=True)
    assert log.append_as_leader(sent, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR).base_offset == 0


def test_what_a_leader_was_sent_needs_no_guard_on_its_followers(log: PartitionLog) -> None:
    assert log.append_as_follower(bytes(produced("v", transactional=True)), now_ms=NOW).base_offset == 0
    assert log.producers.first_ongoing_offset() == 0


def test_a_guard_is_remembered_after_a_question_nobody_answered_and_forgotten_after_a_refusal() -> None:
    guards = Verification()
    producer = ProducerIdentity(9, 0)
    guard = guards.begin(None, producer, sequence=0, has_own_epoch=False)
    assert guard is not None
    guards.release(guard)
    assert guards.begin(None, producer, sequence=0, has_own_epoch=False) is guard
    guards.release(guard, is_refused=True)
    assert len(guards) == 0


def test_a_refusal_of_one_batch_takes_nothing_from_another_that_waits_with_the_same_guard() -> None:
    guards = Verification()
    guard = guards.begin(None, ProducerIdentity(9, 0), sequence=0, has_own_epoch=False)
    again = guards.begin(None, ProducerIdentity(9, 1), sequence=0, has_own_epoch=False)
    assert guard is not None
    assert guard is again
    guards.release(guard, is_refused=True)
    assert guards.is_current(guard)


def test_guards_that_nobody_waits_with_are_bounded_and_those_in_use_stay() -> None:
    guards = Verification()
    used = guards.begin(None, ProducerIdentity(0, 0), sequence=0, has_own_epoch=False)
    for producer_id in range(1, IDLE_MAX + 100):
        guard = guards.begin(None, ProducerIdentity(producer_id, 0), sequence=0, has_own_epoch=False)
        assert guard is not None
        guards.release(guard)
    assert len(guards) == IDLE_MAX + 1
    assert guards.is_current(used)


# Markers with an epoch of their own (KIP-1228).


def test_a_marker_that_is_told_again_is_not_written_again(log: PartitionLog) -> None:
    send(log, begin(log))
    assert not end(log, epoch=1, has_own_epoch=True)
    assert end(log, epoch=1, has_own_epoch=True)
    assert log.log_end_offset == 2


def test_a_late_marker_does_not_end_the_transaction_after_its_own(log: PartitionLog) -> None:
    send(log, begin(log))
    end(log, epoch=1, has_own_epoch=True)
    send(log, begin(log, epoch=1), epoch=1)
    with pytest.raises(ApiError) as refused:
        end(log, epoch=1, has_own_epoch=True)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.producers.first_ongoing_offset() == 2


def test_a_marker_told_again_leaves_the_question_about_the_next_transaction_alone(log: PartitionLog) -> None:
    send(log, begin(log))
    end(log, epoch=1, has_own_epoch=True)
    guard = begin(log, epoch=1)
    end(log, epoch=1, has_own_epoch=True)
    assert send(log, guard, epoch=1) == 2


def test_a_marker_leaves_the_question_about_the_next_transaction_alone_where_each_has_its_own_epoch(
    log: PartitionLog,
) -> None:
    send(log, begin(log, has_own_epoch=True))
    guard = begin(log, epoch=1, has_own_epoch=True)
    end(log, epoch=1, has_own_epoch=True)
    assert send(log, guard, epoch=1) == 2


def test_a_marker_makes_the_answer_about_its_own_transaction_worthless_where_each_has_its_own_epoch(
    log: PartitionLog,
) -> None:
    guard = begin(log, has_own_epoch=True)
    end(log, epoch=1, has_own_epoch=True)
    assert not log.verification.is_current(guard)
    assert refusal(log, guard) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_older_epoch_is_refused_whatever_the_version(log: PartitionLog) -> None:
    send(log, begin(log, epoch=5), epoch=5)
    for has_own_epoch in (False, True):
        with pytest.raises(ApiError) as refused:
            end(log, epoch=4, has_own_epoch=has_own_epoch)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_without_an_own_epoch_the_marker_of_the_same_epoch_ends_the_transaction(log: PartitionLog) -> None:
    send(log, begin(log))
    assert not end(log)
    assert not end(log)  # Nobody can tell a marker that is told again from the end of an empty transaction.
    assert log.log_end_offset == 3


def test_a_marker_of_a_producer_nobody_knows_is_written_and_fences_what_comes_late(log: PartitionLog) -> None:
    assert not end(log, epoch=7, has_own_epoch=True)
    guard = begin(log, epoch=6)
    assert refusal(log, guard, epoch=6) is ErrorCode.INVALID_PRODUCER_EPOCH

"""A coordinator that lost more of its log than partitions did of theirs: they have met epochs of which it knows nothing."""

from __future__ import annotations

import pytest

from tests.coordinator.transaction.transaction_room import NAME, P0, P1, Room, after
from tidelog.coordinator.transaction.initialising import FORGOTTEN_MAX
from tidelog.coordinator.transaction.states import EPOCH_LAST, EPOCH_MAX, TransactionStatus, TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition

VERSIONS = [TransactionVersion.ZERO, TransactionVersion.TWO]
NONE = ErrorCode.NONE


def refused(room: Room, *partitions: TopicPartition, is_committed: bool = True) -> ProducerIdentity:
    """A transaction was decided, and these have met a later epoch of its producer; the pair of the next transaction, as it had been told."""
    former = room.ended(room.reach(TransactionStatus.ONGOING), is_committed=is_committed)
    (errand,) = room.errands
    assert room.ask_written(errand.written(partitions)) is NONE
    room.driver.errands.remove(errand)
    return former


@pytest.mark.parametrize("cluster", list(TransactionVersion))
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_committed", [True, False])
def test_an_id_whose_marker_was_refused_goes_on_under_a_producer_id_that_nobody_has_met(
    version: TransactionVersion, cluster: TransactionVersion, *, is_committed: bool
) -> None:
    room = Room(version)
    room.set(version=cluster)
    former = refused(room, P1, is_committed=is_committed)
    room.write_markers()
    assert room.status() is TransactionStatus.COMPLETE_ABORT
    assert room.describe().producer_id != former.producer_id
    room.driver.fail_over()
    assert room.join(former) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    owner = room.producer()
    assert owner.producer_id != former.producer_id
    assert room.join(owner, P0, P1) is NONE


@pytest.mark.parametrize("is_committed", [True, False])
def test_before_that_whatever_the_former_producer_id_has_open_is_aborted(*, is_committed: bool) -> None:
    room = Room()
    former = refused(room, P1, is_committed=is_committed)
    (errand,) = room.errands
    assert (errand.producer, errand.partitions) == (ProducerIdentity(former.producer_id, EPOCH_MAX), (P1,))
    assert not errand.is_committed, "whatever became of the transaction: what is open there is none of it"
    assert not errand.has_own_epoch
    assert room.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert room.join(former) is ErrorCode.PRODUCER_FENCED
    assert room.end(former, is_committed=True) is ErrorCode.PRODUCER_FENCED
    assert (room.describe().transaction_state, len(room.describe().topics)) == ("PrepareAbort", 1)


@pytest.mark.parametrize("cluster", list(TransactionVersion))
@pytest.mark.parametrize("version", VERSIONS)
def test_a_coordinator_that_dies_before_that_is_aborted_leaves_it_to_the_next(
    version: TransactionVersion, cluster: TransactionVersion
) -> None:
    room = Room(version)
    room.set(version=cluster)
    refused(room, P0, P1)
    errands = room.errands
    for _ in range(2):
        room.driver.fail_over()
        assert room.errands == errands
    room.write_markers()
    assert room.status() is TransactionStatus.COMPLETE_ABORT
    room.driver.fail_over()
    assert not room.errands


def test_what_refuses_even_the_last_epoch_does_not_keep_the_id_for_ever() -> None:
    room = Room()
    refused(room, P1)
    (errand,) = room.errands
    taken = room.ids.next_id
    assert room.ask_written(errand.written((P1,))) is NONE
    assert room.status() is TransactionStatus.COMPLETE_ABORT
    assert room.ids.next_id == taken, "no more producer ids are used up"


def test_what_was_refused_is_not_given_up_while_there_is_no_other_producer_id() -> None:
    room = Room()
    room.ended(room.reach(TransactionStatus.ONGOING))
    (errand,) = room.errands
    room.ids.is_dry = True
    assert room.ask_written(errand.written((P0,))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert room.status() is TransactionStatus.PREPARE_COMMIT
    room.ids.is_dry = False
    assert room.ask_written(errand.written((P0,))) is NONE
    room.driver.errands.remove(errand)
    room.write_markers()
    assert room.status() is TransactionStatus.COMPLETE_ABORT


def test_a_refusal_that_is_told_late_changes_nothing() -> None:
    room = Room()
    producer = room.ended(room.reach(TransactionStatus.ONGOING))
    (errand,) = room.errands
    room.write_markers()
    assert room.ask_written(errand.written((P0,))) is NONE
    assert room.describe(NAME).producer_id == producer.producer_id
    assert not room.errands


def test_a_refusal_that_is_told_twice_is_heard_once() -> None:
    room = Room()
    room.ended(room.reach(TransactionStatus.ONGOING))
    (errand,) = room.errands
    for _ in range(2):
        assert room.ask_written(errand.written((P1,))) is NONE
    assert len(room.errands) == 2
    assert room.status() is TransactionStatus.PREPARE_ABORT


# Before anybody refuses.


def forgetful(version: TransactionVersion, status: TransactionStatus) -> tuple[Room, ProducerIdentity]:
    """A coordinator that took over after a power cut, and who wrote before as far as it knows."""
    room = Room(version)
    producer = room.reach(status)
    room.has_lost_records = True
    room.driver.fail_over()
    return room, producer


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_asking", [False, True], ids=["another incarnation", "the same one"])
@pytest.mark.parametrize("status", [TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT])
def test_after_a_power_cut_nobody_gets_an_epoch_that_may_have_been_given_out(
    status: TransactionStatus, version: TransactionVersion, *, is_asking: bool
) -> None:
    room, producer = forgetful(version, status)
    owner = room.producer(producer if is_asking else None)
    assert owner == after(producer, FORGOTTEN_MAX)
    assert room.producer() == after(owner), "what was given out since then is known"


def test_nor_does_who_comes_when_a_transaction_was_open() -> None:
    room, producer = forgetful(TransactionVersion.TWO, TransactionStatus.ONGOING)
    assert room.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    room.write_markers()
    assert room.producer() == after(producer, 1 + FORGOTTEN_MAX)


def test_where_too_few_epochs_are_left_another_producer_id_follows() -> None:
    room = Room()
    worn = room.wear_out(room.producer(), EPOCH_LAST - FORGOTTEN_MAX + 1)
    room.has_lost_records = True
    room.driver.fail_over()
    assert room.producer() == (worn.producer_id + 1, 0)


def test_a_fail_over_that_loses_nothing_leaps_over_nothing() -> None:
    room = Room()
    producer = room.reach(TransactionStatus.COMPLETE_ABORT)
    room.driver.fail_over()
    assert room.producer() == after(producer)


def test_a_producer_that_lives_goes_on_after_a_power_cut() -> None:
    room, producer = forgetful(TransactionVersion.TWO, TransactionStatus.COMPLETE_COMMIT)
    assert room.join(producer, P0) is NONE
    assert room.ended(producer) == after(producer)

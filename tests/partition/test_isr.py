"""Who is in sync: joining by catching up, leaving by time, one change under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.partition.replicas import LAG_MS, elect, fetch, led_by, members, produce, replica, take, wanted
from tidelog.model import ErrorCode
from tidelog.partition import HighWatermarkAdvanced, IsrChangeWanted, IsrProposal, Partition

GROWN = IsrProposal(leader_epoch=4, partition_epoch=40, isr=((1, -1), (2, -1), (3, 100)))
FATAL = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
]
PASSING = [
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def growing() -> Partition:
    """A leader of {1, 2} in epoch 4 that has asked for 3."""
    leader = replica(1)
    leader.become_leader(led_by(1, 4, isr=(1, 2)))
    assert wanted(take(leader, fetch(3, 0, epoch=4))[1]) == [GROWN]
    return leader


def test_a_follower_joins_when_it_holds_all_that_is_committed() -> None:
    leader = replica(1)
    leader.become_leader(led_by(1, isr=(1, 2)))
    produce(leader, "a", "b", "c")
    take(leader, fetch(2, 2))
    assert leader.high_watermark == 2
    assert members(take(leader, fetch(3, 1))[1]) == []
    assert members(take(leader, fetch(3, 2))[1]) == [(1, 2, 3)]


def test_a_follower_does_not_join_a_new_leader_before_it_reaches_the_start_of_the_epoch() -> None:
    """R12: the new leader's watermark may be behind what is committed."""
    leader, second = replica(1), replica(2)
    elect(leader, second, epoch=0, isr=(1, 2))
    produce(leader, "a", "b")
    for _ in range(2):
        read, _ = take(leader, fetch(2, second.log.log_end_offset))
        second.append_as_follower(read.records, leader_high_watermark=0, leader_log_start_offset=0, now_ms=0)
    assert (leader.high_watermark, second.high_watermark) == (2, 0)
    elect(second, epoch=1, isr=(1, 2))
    assert members(take(second, fetch(3, 0, epoch=1))[1]) == []
    assert members(take(second, fetch(3, 1, epoch=1, last=0))[1]) == []
    assert members(take(second, fetch(3, 2, epoch=1, last=0))[1]) == [(1, 2, 3)]


def test_a_follower_whose_broker_is_not_live_does_not_join() -> None:
    leader = replica(1, is_eligible=lambda _: False)
    leader.become_leader(led_by(1, isr=(1, 2)))
    assert members(take(leader, fetch(3, 0))[1]) == []


def test_a_proposal_names_the_incarnations_that_fetched() -> None:
    """R15 at the leader: a member that has not fetched since the election is named without one, and so is the leader itself."""
    leader = replica(1)
    leader.become_leader(led_by(1, 4, isr=(1, 2)))
    take(leader, fetch(2, 0, epoch=4, incarnation=77))
    assert wanted(take(leader, fetch(3, 0, epoch=4, incarnation=99))[1]) == [
        IsrProposal(leader_epoch=4, partition_epoch=40, isr=((1, -1), (2, 77), (3, 99)))
    ]


def test_a_silent_member_leaves_when_its_time_is_over_and_not_before() -> None:
    """R18: at exactly the limit it stays."""
    leader = replica(1)
    leader.become_leader(led_by(1, isr=(1, 2)), monotonic_ms=50.0)
    produce(leader, "a")
    assert leader.check_isr(50.0 + LAG_MS) == []
    assert members(leader.check_isr(51.0 + LAG_MS)) == [(1,)]


def test_a_member_that_holds_everything_may_be_silent_for_ever() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, "a")
    take(leader, fetch(2, 1), at_ms=0.0)
    assert leader.check_isr(1000.0 * LAG_MS) == []


def test_a_member_that_fetches_but_never_catches_up_leaves() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, *"abcdefgh")
    for step in range(5):  # Always behind what the leader held at the fetch before.
        take(leader, fetch(2, step), at_ms=step * 300.0)
    assert members(leader.check_isr(1200.0)) == [(1,)]


def test_a_member_one_fetch_behind_a_busy_leader_stays() -> None:
    """R18: it holds at each fetch what the leader held at the one before, so it was caught up then."""
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    for step in range(20):
        produce(leader, "a")
        take(leader, fetch(2, step), at_ms=step * 900.0)
        assert leader.check_isr(step * 900.0) == []


def test_all_late_members_leave_at_once_and_the_leader_never_does() -> None:
    leader = replica(1)
    elect(leader, epoch=0)
    produce(leader, "a")
    assert members(leader.check_isr(LAG_MS + 1.0)) == [(1,)]


def test_only_one_change_is_under_way() -> None:
    leader = growing()
    assert take(leader, fetch(3, 0, epoch=4))[1] == []
    produce(leader, "a")
    assert members(leader.check_isr(5.0 * LAG_MS)) == []
    leader.on_isr_committed((1, 2, 3), 41, 4, 5.0 * LAG_MS)
    assert members(leader.check_isr(5.0 * LAG_MS)) == [(1,)]


def test_a_committed_change_counts_with_its_partition_epoch() -> None:
    leader = growing()
    leader.on_isr_committed((1, 2, 3), 41, 4)
    assert leader.leadership == led_by(1, 4, isr=(1, 2, 3), version=41)
    assert (leader.isr, leader.maximal_isr) == ((1, 2, 3), (1, 2, 3))


@pytest.mark.parametrize(("partition_epoch", "leader_epoch"), [(41, 3), (41, 5), (40, 4), (39, 4)])
def test_an_answer_for_another_epoch_or_of_an_older_state_is_dropped(partition_epoch: int, leader_epoch: int) -> None:
    """R13: a late or repeated answer changes nothing, and the change stays under way."""
    leader = growing()
    assert leader.on_isr_committed((1,), partition_epoch, leader_epoch) == []
    assert (leader.isr, leader.maximal_isr) == ((1, 2), (1, 2, 3))


def test_an_answer_to_a_replica_that_leads_no_longer_is_dropped() -> None:
    leader = growing()
    leader.become_follower(led_by(2, 5), now_ms=0)
    assert leader.on_isr_committed((1, 2, 3), 41, 4) == []
    assert leader.on_isr_refused(ErrorCode.NETWORK_EXCEPTION) == []
    assert (leader.isr, leader.leadership) == ((), led_by(2, 5))


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_change_that_was_decided_against_is_taken_back(code: ErrorCode) -> None:
    leader = growing()
    produce(leader, "a")
    take(leader, fetch(2, 1, epoch=4))
    assert leader.high_watermark == 0
    leader.check_isr(LAG_MS + 1.0)  # The follower is about to join no longer.
    assert leader.on_isr_refused(code, LAG_MS + 1.0) == [HighWatermarkAdvanced(1)]
    assert leader.maximal_isr == (1, 2)


@pytest.mark.parametrize("code", FATAL)
def test_a_change_that_met_something_newer_stays_under_way_until_the_controller_tells(code: ErrorCode) -> None:
    leader = growing()
    assert leader.on_isr_refused(code) == []
    assert (leader.isr, leader.maximal_isr) == ((1, 2), (1, 2, 3))
    assert take(leader, fetch(3, 0, epoch=4))[1] == []
    leader.become_leader(led_by(1, 4, isr=(1, 2), version=42))
    assert leader.maximal_isr == (1, 2)


@pytest.mark.parametrize("code", PASSING)
def test_a_change_nobody_decided_about_is_asked_for_again(code: ErrorCode) -> None:
    leader = growing()
    assert leader.on_isr_refused(code) == [IsrChangeWanted(GROWN)]
    assert leader.maximal_isr == (1, 2, 3)


def test_a_refusal_of_an_earlier_change_is_dropped() -> None:
    leader = growing()
    assert leader.on_isr_refused(ErrorCode.INELIGIBLE_REPLICA, proposal=replace(GROWN, partition_epoch=39)) == []
    assert list(leader.maximal_isr) == [1, 2, 3]
    leader.on_isr_refused(ErrorCode.INELIGIBLE_REPLICA, proposal=GROWN)
    assert list(leader.maximal_isr) == [1, 2]


def test_the_same_state_told_twice_does_not_settle_a_change_under_way() -> None:
    """R13: a new controller tells everybody everything, perhaps from before the change; the registry may hold the change already."""
    leader = growing()
    leader.become_leader(led_by(1, 4, isr=(1, 2)))
    assert leader.maximal_isr == (1, 2, 3)


def test_the_controller_may_tell_of_a_change_before_it_answers() -> None:
    leader = growing()
    leader.become_leader(led_by(1, 4, isr=(1, 2, 3), version=41))
    assert (leader.isr, leader.maximal_isr) == ((1, 2, 3), (1, 2, 3))
    assert leader.on_isr_committed((1, 2, 3), 41, 4) == []
    assert leader.on_isr_refused(ErrorCode.NETWORK_EXCEPTION) == []


def test_an_offline_leader_asks_for_nothing() -> None:
    leader = replica(1)
    elect(leader, epoch=0)
    produce(leader, "a")
    leader.go_offline()
    assert leader.check_isr(9.0 * LAG_MS) == []

"""What a leader counts as committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.partition.replicas import (
    LAG_MS,
    apply,
    catch_up,
    elect,
    fetch,
    fetch_of,
    led_by,
    members,
    produce,
    refused,
    replica,
    replicate,
    take,
)
from tidelog.config import LogConfig
from tidelog.model import Acks, ErrorCode
from tidelog.partition import HighWatermarkAdvanced, Partition

ALONE = (1,)


def columns(leader: Partition, second: Partition, third: Partition) -> tuple[int, ...]:
    """L.LEO, L.HW, remote2, remote3, F2.LEO, F2.HW, F3.LEO, F3.HW."""
    remotes = {each.broker_id: each.log_end_offset for each in leader.describe(0, 0.0).remotes}
    return (
        leader.log.log_end_offset,
        leader.high_watermark,
        remotes[2],
        remotes[3],
        second.log.log_end_offset,
        second.high_watermark,
        third.log.log_end_offset,
        third.high_watermark,
    )


def test_one_record_on_its_way_through_three_replicas() -> None:
    """The trace of a record at offset 0 produced with acks=all, ISR {1, 2, 3}."""
    leader, second, third = replica(1), replica(2), replica(3)
    elect(leader, second, third, epoch=0)
    replicate(leader, second)
    replicate(leader, third)
    produce(leader, "m", acks=Acks.ALL)
    assert columns(leader, second, third) == (1, 0, 0, 0, 0, 0, 0, 0)
    assert not leader.is_settled(1, Acks.ALL)
    for follower in (second, third):
        read, events = replicate(leader, follower)
        assert (len(read.records) > 0, read.high_watermark, events) == (True, 0, [])
    assert columns(leader, second, third) == (1, 0, 0, 0, 1, 0, 1, 0)
    assert take(leader, fetch_of(second))[1] == []
    assert columns(leader, second, third) == (1, 0, 1, 0, 1, 0, 1, 0)
    parked = fetch_of(third)
    read, events = take(leader, parked)
    assert events == [HighWatermarkAdvanced(1)]
    assert read.high_watermark == 0  # An answer at once carries what was known before it.
    assert leader.is_settled(1, Acks.ALL)
    assert columns(leader, second, third) == (1, 1, 1, 1, 1, 0, 1, 0)
    for follower in (second, third):  # Their wait is over: the answer is read again and counts for nothing.
        again, events = take(leader, fetch_of(follower), is_again=True)
        assert (again.high_watermark, events) == (1, [])
        assert apply(follower, again) == [HighWatermarkAdvanced(1)]
    assert columns(leader, second, third) == (1, 1, 1, 1, 1, 1, 1, 1)


def test_a_member_that_has_not_fetched_since_the_election_holds_the_watermark_where_it_is() -> None:
    leader, second = replica(1), replica(2)
    elect(leader, second, epoch=0)
    produce(leader, "a")
    catch_up(leader, second)
    assert leader.high_watermark == 0
    take(leader, fetch(3, 1))
    assert leader.high_watermark == 1


def test_a_replica_outside_the_isr_that_never_caught_up_holds_nothing_back() -> None:
    leader = replica(1)
    leader.become_leader(led_by(1, isr=(1, 2)), monotonic_ms=5.0)
    produce(leader, "a")
    take(leader, fetch(2, 1), at_ms=5.0)
    produce(leader, "b")
    take(leader, fetch(3, 0), at_ms=5.0)
    take(leader, fetch(2, 2), at_ms=5.0)
    assert (leader.high_watermark, leader.maximal_isr) == (2, (1, 2))


def test_the_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    """Else a fast producer would keep it ahead of a follower that has to reach it."""
    leader = replica(1)
    leader.become_leader(led_by(1, isr=ALONE))
    take(leader, fetch(2, 0), at_ms=10.0)  # Caught up with an empty log; asks to join.
    leader.on_isr_refused(ErrorCode.INELIGIBLE_REPLICA, 10.0)
    produce(leader, "a")
    assert leader.high_watermark == 0
    assert leader.check_isr(10.0 + LAG_MS) == []
    assert leader.check_isr(10.5 + LAG_MS) == [HighWatermarkAdvanced(1)]


def test_a_follower_whose_broker_is_gone_is_not_waited_for() -> None:
    live = {2, 3}
    leader = replica(1, is_eligible=live.__contains__)
    leader.become_leader(led_by(1, isr=ALONE))
    take(leader, fetch(2, 0), at_ms=10.0)
    leader.on_isr_refused(ErrorCode.INELIGIBLE_REPLICA, 10.0)
    live.discard(2)
    produce(leader, "a")
    assert leader.high_watermark == 1


def test_the_watermark_respects_a_member_that_is_on_its_way_in() -> None:
    """R13: the registry may hold the new ISR already, however late the follower is by now."""
    live = {2, 3}
    leader = replica(1, is_eligible=live.__contains__)
    leader.become_leader(led_by(1, isr=ALONE))
    assert members(take(leader, fetch(2, 0))[1]) == [(1, 2)]
    live.discard(2)
    produce(leader, "a")
    assert leader.check_isr(10.0 * LAG_MS) == []
    assert (leader.high_watermark, leader.isr, leader.maximal_isr) == (0, (1,), (1, 2))
    leader.on_isr_committed((1, 2), 1, 0, 10.0 * LAG_MS)
    assert leader.high_watermark == 0


def test_the_watermark_respects_a_member_that_is_on_its_way_out() -> None:
    """R13: the registry may still hold the old ISR."""
    leader = replica(1)
    elect(leader, epoch=0)
    produce(leader, "a")
    for follower in (2, 3):
        take(leader, fetch(follower, 0))
    take(leader, fetch(2, 1), at_ms=2.0 * LAG_MS)
    assert members(leader.check_isr(2.0 * LAG_MS)) == [(1, 2)]
    produce(leader, "b")
    take(leader, fetch(2, 2), at_ms=2.0 * LAG_MS)
    assert (leader.high_watermark, leader.isr, leader.maximal_isr) == (0, (1, 2, 3), (1, 2, 3))
    assert leader.on_isr_committed((1, 2), 1, 0, 2.0 * LAG_MS) == [HighWatermarkAdvanced(2)]


def test_nothing_is_committed_while_fewer_are_in_sync_than_asked_for() -> None:
    """Strict min ISR (KIP-966): what left the ISR last still knows all that is committed."""
    leader = replica(1, LogConfig(min_insync_replicas=2))
    leader.become_leader(led_by(1, isr=ALONE))
    produce(leader, "a", acks=Acks.LEADER)
    assert (leader.min_isr, leader.high_watermark) == (2, 0)
    assert members(take(leader, fetch(2, 1))[1]) == [(1, 2)]
    assert leader.high_watermark == 0  # Asked for is not committed.
    assert leader.on_isr_committed((1, 2), 1, 0) == [HighWatermarkAdvanced(1)]


def test_a_lower_min_isr_commits_what_was_held_back() -> None:
    leader = replica(1, LogConfig(min_insync_replicas=2))
    leader.become_leader(led_by(1, isr=ALONE))
    produce(leader, "a")
    assert HighWatermarkAdvanced(1) in leader.reconfigure(LogConfig(min_insync_replicas=1))


def test_acks_all_is_refused_before_the_append_when_too_few_are_in_sync() -> None:
    leader = replica(1, LogConfig(min_insync_replicas=2))
    leader.become_leader(led_by(1, isr=ALONE))
    assert refused(lambda: produce(leader, "a", acks=Acks.ALL)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.log.log_end_offset == 0


def test_acks_all_is_refused_after_the_append_when_too_few_were_left_to_hold_it() -> None:
    leader = replica(1, LogConfig(min_insync_replicas=2))
    leader.become_leader(led_by(1, isr=(1, 2)))
    produce(leader, "a", acks=Acks.ALL)
    take(leader, fetch(2, 1))
    assert leader.is_settled(1, Acks.ALL)
    leader.become_leader(led_by(1, 1, isr=ALONE))
    assert refused(lambda: leader.is_settled(1, Acks.ALL)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert not leader.is_settled(2, Acks.ALL)
    assert leader.is_settled(1, Acks.LEADER)


@pytest.mark.parametrize(
    ("assignment", "adding", "min_isr"),
    [((1, 2, 3), (), 3), ((1, 2), (), 2), ((4, 1, 2), (4,), 2), ((4, 5, 6, 1), (4, 5, 6), 1)],
)
def test_a_reassignment_asks_for_no_more_than_the_replicas_it_began_with(
    assignment: tuple[int, ...], adding: tuple[int, ...], min_isr: int
) -> None:
    leader = replica(1, LogConfig(min_insync_replicas=3))
    leader.become_leader(replace(led_by(1, isr=ALONE, assignment=assignment), adding=adding))
    assert leader.min_isr == min_isr


def test_a_leader_counts_its_own_records_when_they_are_flushed() -> None:
    leader = replica(1, LogConfig(flush_messages=1))
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, "a")
    flush = leader.log.start_flush()
    assert flush is not None
    assert len(take(leader, fetch(2, 0))[0].records) > 0
    take(leader, fetch(2, 1))
    assert leader.high_watermark == 0
    flush.perform()
    assert leader.on_flushed(flush) == [HighWatermarkAdvanced(1)]


def test_the_watermark_of_a_new_leader_is_its_own_and_grows_to_what_was_committed() -> None:
    """R11: until it has, the end of the log is not known, and a reader at the old watermark waits."""
    leader, second, third = replica(1), replica(2), replica(3)
    elect(leader, second, third, epoch=0)
    produce(leader, "a", "b")
    catch_up(leader, second)
    take(leader, fetch(3, 2))
    assert leader.high_watermark == 2
    third_is_behind = (third.log.log_end_offset, third.high_watermark)
    assert third_is_behind == (0, 0)
    second.high_watermark = 1  # It heard of the first record only.
    elect(second, epoch=1, isr=(2, 3))
    assert (second.high_watermark, second.is_end_known) == (1, False)
    take(second, fetch(3, 2, epoch=1, last=0))
    assert (second.high_watermark, second.is_end_known) == (2, True)


def test_a_follower_that_fetches_from_an_earlier_offset_takes_nothing_back() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, "a", "b")
    take(leader, fetch(2, 2))
    take(leader, fetch(2, 0, incarnation=101))
    produce(leader, "c")
    assert leader.high_watermark == 2

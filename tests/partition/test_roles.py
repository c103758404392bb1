"""Becoming leader and follower, who keeps waiting through it, and what a replica says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.partition.replicas import NOW, catch_up, elect, fetch, led_by, produce, refused, replica, take, values
from tidelog.config import LogConfig
from tidelog.model import Acks, ErrorCode, InvariantBroken, IsolationLevel
from tidelog.partition import (
    FlushWanted,
    HighWatermarkAdvanced,
    LeadershipChanged,
    Partition,
    RemoteDescription,
    ReplicaDescription,
)


def read(from_: Partition, offset: int, *, may_follow: bool, epoch: int = -1) -> bytes:
    return from_.read(
        offset,
        max_bytes=1 << 20,
        isolation=IsolationLevel.READ_UNCOMMITTED,
        may_follow=may_follow,
        current_leader_epoch=epoch,
    ).records


def test_a_leader_elected_alone_commits_what_it_holds() -> None:
    follower = replica(2)
    elect(replica(1), follower, epoch=0)
    leader = replica(1)
    elect(leader, epoch=0)
    produce(leader, "a")
    follower.append_as_follower(
        take(leader, fetch(2, 0))[0].records, leader_high_watermark=0, leader_log_start_offset=0, now_ms=NOW
    )
    events = follower.become_leader(led_by(2, 1, isr=(2,)))
    assert [event for event in events if event != FlushWanted()] == [
        LeadershipChanged(1, is_leader=True),
        HighWatermarkAdvanced(1),
    ]


def test_a_follower_is_told_of_every_new_epoch_even_of_the_same_leader() -> None:
    """R04: whoever waits looks again."""
    follower = replica(2)
    for epoch in (0, 1):
        assert LeadershipChanged(epoch, is_leader=False) in follower.become_follower(led_by(1, epoch), now_ms=NOW)
    assert follower.become_follower(led_by(1, 1, version=11), now_ms=NOW) == []
    assert follower.leader_epoch == 1


def test_stale_states_are_ignored_in_both_roles() -> None:
    """N08: states may arrive in any order."""
    one = replica(1)
    one.become_leader(led_by(1, 2))
    assert one.become_follower(led_by(2, 1), now_ms=NOW) == []
    assert one.is_leader
    one.become_follower(led_by(2, 4), now_ms=NOW)
    assert one.become_leader(led_by(1, 3)) == []
    assert (one.is_follower, one.leadership) == (True, led_by(2, 4))


def test_a_replica_does_not_lead_an_epoch_that_its_log_knows_to_be_over() -> None:
    """A broker that restarts has forgotten what it was told, but not what it wrote."""
    leader = replica(1)
    elect(leader, epoch=2, isr=(1,))
    produce(leader, "a")
    restarted = replica(1, log=leader.log)
    assert restarted.become_leader(led_by(1, 1)) == []
    assert (restarted.leadership, restarted.log.latest_leader_epoch) == (None, 2)
    restarted.become_leader(led_by(1, 3))
    assert restarted.is_leader


def test_nobody_leads_or_follows_under_a_wrong_name() -> None:
    with pytest.raises(InvariantBroken):
        replica(1).become_leader(led_by(2))
    with pytest.raises(InvariantBroken):
        replica(1).become_follower(led_by(1), now_ms=NOW)


def test_a_waiting_producer_is_not_disturbed_when_its_leader_begins_a_new_epoch() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2, 3))
    reign = leader.reign
    produce(leader, "a", acks=Acks.ALL)
    leader.become_leader(led_by(1, 1, isr=(1, 2)))
    leader.check_reign(reign)
    take(leader, fetch(2, 1, epoch=1, last=0))
    assert leader.is_settled(1, Acks.ALL)


def test_a_waiting_producer_is_sent_away_at_once_when_its_leader_is_demoted() -> None:
    """R22: also if the same replica leads again before anybody looks."""
    leader = replica(1)
    elect(leader, epoch=0)
    reign = leader.reign
    produce(leader, "a", acks=Acks.ALL)
    leader.become_follower(led_by(2, 1), now_ms=NOW)
    assert refused(lambda: leader.check_reign(reign)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.become_leader(led_by(1, 2))
    assert refused(lambda: leader.check_reign(reign)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.check_reign(leader.reign)
    leader.step_down()
    assert refused(lambda: leader.check_reign(reign)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_a_leader_knows_of_its_followers_survives_its_own_next_epoch() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, "a", "b")
    take(leader, fetch(2, 1))
    leader.become_leader(led_by(1, 1, isr=(1, 2)), monotonic_ms=9.0)
    (second, third) = leader.describe(1000, 10.0).remotes
    assert second == RemoteDescription(broker_id=2, log_end_offset=1, last_caught_up_ms=999)
    assert third == RemoteDescription(broker_id=3, log_end_offset=-1, last_caught_up_ms=-1)


def test_what_a_leader_knew_of_its_followers_is_void_if_it_missed_an_epoch() -> None:
    """Another may have led meanwhile and had a follower cut what it held: counting that would commit what only we hold."""
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2, 3))
    produce(leader, "a", "b")
    take(leader, fetch(2, 2))
    leader.become_leader(led_by(1, 2, isr=(1, 2)))
    assert (leader.high_watermark, leader.describe(0, 0.0).remotes[0].log_end_offset) == (0, -1)
    take(leader, fetch(2, 1, epoch=2, last=0))
    assert leader.high_watermark == 1


def test_a_leader_that_was_a_follower_knows_nothing_of_the_others() -> None:
    one = replica(1)
    elect(one, epoch=0, isr=(1, 2))
    produce(one, "a")
    take(one, fetch(2, 0))
    one.become_follower(led_by(2, 1), now_ms=NOW)
    assert (one.isr, one.maximal_isr, one.describe(0, 0.0).remotes) == ((), (), ())
    one.become_leader(led_by(1, 2, isr=(1, 2)))
    assert one.describe(0, 0.0).remotes[0].log_end_offset == -1


def test_a_reassignment_within_an_epoch_brings_a_replica_and_takes_one() -> None:
    leader = replica(1)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, "a")
    take(leader, fetch(2, 1))
    moved = replace(led_by(1, 0, isr=(1, 2), version=1, assignment=(1, 2, 4)), adding=(4,))
    leader.become_leader(moved)
    assert [(each.broker_id, each.log_end_offset) for each in leader.describe(0, 0.0).remotes] == [(2, 1), (4, -1)]
    assert refused(lambda: take(leader, fetch(3, 1))) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_serves_readers_as_far_as_it_knows_records_to_be_committed() -> None:
    """KIP-392."""
    leader, follower = replica(1), replica(2)
    elect(leader, follower, epoch=3, isr=(1, 2))
    produce(leader, "a")
    catch_up(leader, follower)
    produce(leader, "b")
    answer, _ = take(leader, fetch(2, 1, epoch=3, last=3))
    follower.append_as_follower(answer.records, leader_high_watermark=1, leader_log_start_offset=0, now_ms=NOW)
    assert read(follower, 0, may_follow=True, epoch=3) == leader.log.read(0, max_bytes=1 << 20, end_offset=1)
    assert read(follower, 1, may_follow=True) == read(follower, 2, may_follow=True) == b""
    assert refused(lambda: read(follower, 3, may_follow=True)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused(lambda: read(follower, 0, may_follow=False)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(lambda: read(follower, 0, may_follow=True, epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: read(follower, 0, may_follow=False, epoch=4)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert follower.check_leader_epoch(3, may_follow=True).leader == 1
    assert refused(lambda: read(replica(3), 0, may_follow=True)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def near(leader: Partition, offset: int, rack: str | None = "b") -> int | None:
    return leader.preferred_replica(offset=offset, client_rack=rack, racks={1: "a", 2: "b", 3: "b", 4: "b", 5: None})


def test_a_reader_is_sent_to_the_most_caught_up_member_in_its_rack() -> None:
    """KIP-392."""
    leader = replica(1)
    leader.become_leader(led_by(1, isr=(1, 2, 3, 5), assignment=(1, 2, 3, 4, 5)))
    assert near(leader, 0) is None  # Nobody has fetched yet.
    produce(leader, *"abcd")
    take(leader, fetch(2, 3, start=1))
    take(leader, fetch(3, 2))
    take(leader, fetch(4, 1))
    assert [near(leader, offset) for offset in range(5)] == [3, 2, 2, 2, None]
    take(leader, fetch(3, 3), at_ms=5.0)
    assert near(leader, 2) == 3
    assert [near(leader, 0, rack) for rack in ("a", "c", "", None)] == [None, None, None, None]


def test_a_reader_is_not_sent_to_a_broker_that_is_gone() -> None:
    live = {2, 3}
    leader = replica(1, is_eligible=live.__contains__)
    elect(leader, epoch=0)
    take(leader, fetch(2, 0))
    assert near(leader, 0) == 2
    live.discard(2)
    assert near(leader, 0) is None


def test_a_replica_describes_itself() -> None:
    leader, follower = replica(1, LogConfig(min_insync_replicas=2)), replica(2)
    assert leader.describe(0, 0.0).leader_id == -1
    elect(leader, follower, epoch=3, isr=(1, 2), at_ms=100.0)
    produce(leader, "a", "b")
    catch_up(leader, follower, at_ms=200.0)
    produce(leader, "c")
    assert leader.describe(5000, 250.0) == ReplicaDescription(
        is_leader=True,
        leader_id=1,
        leader_epoch=3,
        last_epoch=3,
        log_start_offset=0,
        log_end_offset=3,
        high_watermark=2,
        last_stable_offset=2,
        isr=(1, 2),
        assignment=(1, 2, 3),
        remotes=(
            RemoteDescription(broker_id=2, log_end_offset=2, last_caught_up_ms=4950),
            RemoteDescription(broker_id=3, log_end_offset=-1, last_caught_up_ms=-1),
        ),
    )
    said = follower.describe(5000, 250.0)
    assert (said.is_leader, said.leader_id, said.isr, said.remotes, said.log_end_offset) == (False, 1, (), (), 2)
    assert values(follower) == {0: "a", 1: "b"}

"""Static members of a consumer group keep their places while they restart."""

from __future__ import annotations

from tests.coordinator.group.consumer_room import SESSION_MS, Room
from tidelog.model import ErrorCode


def test_a_static_member_that_comes_back_in_time_gets_what_it_had() -> None:
    room = Room()
    x, y = room.reader("x", instance_id="i"), room.reader("y")
    room.settle(x, y)
    had, epoch = x.partitions, room.group.epoch
    response = x.leave(-2)
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -2)
    assert room.group.members["x"].epoch == -2
    room.fail_over()
    y.settle()
    assert sorted(y.partitions) != [0, 1, 2, 3], "its part is kept for it"
    again = room.reader("x2", instance_id="i")
    since = len(room.driver.log)
    again.settle()
    assert (again.partitions, again.epoch) == (had, epoch), "no rebalance"
    assert room.written(since)[:6] == [-8, -7, -5, 5, 7, 8]
    assert set(room.group.members) == {"x2", "y"}
    room.fail_over()
    room.settle(again, y)
    assert room.group.state_name == "Stable"


def test_a_static_member_that_stays_away_is_removed() -> None:
    room = Room()
    x, y = room.reader("x", instance_id="i"), room.reader("y")
    room.settle(x, y)
    x.leave(-2)
    room.driver.wait_ms(SESSION_MS - 1)
    room.settle(y)
    room.driver.wait_ms(1)
    assert list(room.group.members) == ["y"]
    room.settle(y)
    assert y.partitions == [0, 1, 2, 3]


def test_a_place_that_is_taken_is_not_given_away() -> None:
    room = Room()
    x = room.reader("x", instance_id="i")
    x.settle()
    other = room.reader("y", instance_id="i")
    assert other.beat().error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.beat(member_epoch=1).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert other.leave().error_code is ErrorCode.FENCED_INSTANCE_ID
    assert other.leave(-2).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert x.settle().error_code is ErrorCode.NONE


def test_a_place_that_nobody_has_is_unknown() -> None:
    room = Room()
    room.reader("x").settle()
    stranger = room.reader("x", instance_id="i")
    assert stranger.beat(member_epoch=1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave(-2).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_was_replaced_is_fenced() -> None:
    room = Room()
    x = room.reader("x", instance_id="i")
    x.settle()
    zombie = room.reader("x", instance_id="i", epoch=1, is_full_due=False)
    x.leave(-2)
    assert zombie.beat(topic_partitions=None).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    again = room.reader("x2", instance_id="i")
    again.settle()
    zombie.epoch = 1
    assert zombie.beat(topic_partitions=None).error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_leaves_while_it_gives_up_has_given_up_everything() -> None:
    room = Room()
    x, y = room.reader("x", instance_id="i"), room.reader("y")
    x.settle()
    y.settle()
    x.beat()  # is told to give up two
    x.leave(-2)
    room.fail_over()
    room.driver.wait_ms(40_000)
    y.settle()
    assert len(y.partitions) == 2
    again = room.reader("x2", instance_id="i")
    room.settle(again, y)
    assert sorted(again.partitions + y.partitions) == [0, 1, 2, 3]
    assert room.group.state_name == "Stable"


def test_a_static_member_leaves_for_good() -> None:
    room = Room()
    x, y = room.reader("x", instance_id="i"), room.reader("y")
    room.settle(x, y)
    x.leave()
    assert room.group.instances == {}
    room.settle(y)
    assert y.partitions == [0, 1, 2, 3]


def test_a_static_member_that_did_not_hear_that_it_has_joined_may_join_again() -> None:
    room = Room()
    x = room.reader("x", instance_id="i")
    x.beat(is_lost=True)
    since = len(room.driver.log)
    assert x.settle().error_code is ErrorCode.NONE
    assert (x.epoch, x.partitions) == (1, [0, 1, 2, 3])
    assert room.written(since) == []
    room.reader("y").settle()
    room.settle(x)
    assert room.reader("z", instance_id="i").beat().error_code is ErrorCode.UNRELEASED_INSTANCE_ID, "somebody else"


def test_a_static_member_that_was_fenced_joins_again_at_once() -> None:
    room = Room()
    x, y = room.reader("x", instance_id="i"), room.reader("y")
    room.settle(x, y)
    assert x.beat(member_epoch=x.epoch + 7).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert x.settle().error_code is ErrorCode.NONE
    room.settle(x, y)
    assert sorted(x.partitions + y.partitions) == [0, 1, 2, 3]

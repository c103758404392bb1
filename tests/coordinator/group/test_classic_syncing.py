"""SyncGroup: the leader says who gets what; it is written down, and everybody hears its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.coordinator.group.classic_room import REBALANCE_MS, SESSION_MS, Room
from tidelog.coordinator.group.classic import ClassicGroup
from tidelog.coordinator.group.records import read_group_key, read_group_value
from tidelog.model import ErrorCode


def test_followers_wait_for_the_leader_and_everybody_gets_its_part() -> None:
    room = Room()
    leader, follower = room.completing(2)
    waiting = room.sync(follower)
    assert room.is_parked(waiting)
    response = room.synced(leader, parts={leader: b"1", follower: b"2"})
    assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"1")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert room.answer(waiting).assignment == b"2"
    assert room.state == "Stable"
    assert room.synced(follower).assignment == b"2"
    assert room.synced(leader).assignment == b"1"


def test_what_the_leader_says_is_written_down_as_one_record() -> None:
    room = Room()
    leader, follower = room.stable(1, instances=("i",))
    (record,) = room.driver.log
    assert record.value is not None
    value = read_group_value(record.value)
    assert read_group_key(record.key) == room.group.group_id
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 1, "range", leader)
    assert value.state_timestamp_ms == room.driver.now.wall_ms
    assert [member.member_id for member in value.members] == [leader, follower]
    assert [member.instance_id for member in value.members] == [None, "i"]
    assert [member.assignment for member in value.members] == [
        b"part of " + leader.encode(),
        b"part of " + follower.encode(),
    ]
    assert [(member.client_id, member.client_host) for member in value.members] == [("client", "/127.0.0.1")] * 2
    assert ClassicGroup.from_value(room.group.group_id, value) == room.group


def test_members_whom_the_leader_forgets_get_nothing_and_strangers_are_passed_over() -> None:
    room = Room()
    leader, follower = room.completing(2)
    waiting = room.sync(follower)
    room.synced(leader, parts={leader: b"1", "stranger": b"2"})
    assert room.answer(waiting).error_code is ErrorCode.NONE
    assert room.answer(waiting).assignment == b""
    assert "stranger" not in room.group.members


def test_what_a_follower_assigns_is_not_heeded() -> None:
    room = Room()
    leader, follower = room.completing(2)
    assert room.is_parked(room.sync(follower, parts={leader: b"x", follower: b"x"}))
    assert room.synced(leader, parts={leader: b"1"}).assignment == b"1"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": -1, "names": ("connect", None)}, ErrorCode.ILLEGAL_GENERATION),
        ({"names": ("connect", "range")}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ("consumer", "sticky")}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"names": ("consumer", "range")}, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("make", [Room.completing, Room.stable])
def test_a_sync_is_checked(make: Callable[..., list[str]], said: dict[str, Any], code: ErrorCode) -> None:
    room = Room()
    leader, *_ = make(room, 1, instances=("i",))
    assert room.synced(**{"member_id": leader, **said}).error_code is code


def test_a_sync_to_a_group_that_is_unknown_or_empty_is_that_of_a_stranger() -> None:
    room = Room()
    assert room.synced("anybody", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    room.leave(*room.stable(1))
    assert room.synced("anybody").error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_a_rebalance_is_too_late() -> None:
    room = Room()
    leader, _follower = room.stable(2)
    room.rejoin(leader)
    assert room.synced(leader).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_waits_for_a_part_hears_that_there_is_another_rebalance() -> None:
    room = Room()
    leader, follower, third = room.completing(3)
    waiting = room.sync(follower)
    room.leave(third)
    assert room.answer(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = room.rejoin(leader, follower)
    assert {room.answer(token).generation_id for token in tokens.values()} == {2}


def test_a_member_that_asks_twice_for_its_part_is_answered_once_more() -> None:
    room = Room()
    leader, follower = room.completing(2)
    first, second = room.sync(follower), room.sync(follower)
    assert room.answer(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    room.synced(leader, parts={follower: b"2"})
    assert room.answer(second).assignment == b"2"


def test_whoever_does_not_ask_for_its_part_in_time_is_gone() -> None:
    room = Room()
    leader, follower, lazy = room.completing(3, session_ms=300_000)
    waiting = room.sync(follower)
    room.wait_ms(REBALANCE_MS - 1)
    assert room.is_parked(waiting)
    room.wait_ms(1)
    assert room.answer(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert {*room.group.members.by_id} == {follower}
    assert [room.beat(member_id) for member_id in (leader, lazy)] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    tokens = room.rejoin(follower)
    assert room.answer(tokens[follower]).leader == follower


def test_in_a_stable_group_too_everybody_has_to_ask_for_its_part() -> None:
    room = Room()
    leader, lazy = room.completing(2, session_ms=300_000)
    room.synced(leader, parts={leader: b"1"})
    room.wait_ms(REBALANCE_MS)
    assert room.state == "PreparingRebalance"
    assert lazy not in room.group.members


def test_if_everybody_has_asked_nobody_is_gone() -> None:
    room = Room()
    ids = room.stable(3, session_ms=300_000)
    room.wait_ms(REBALANCE_MS)
    assert room.state == "Stable"
    assert {*room.group.members.by_id} == {*ids}


def test_whoever_waits_for_its_part_need_not_send_heartbeats_and_must_afterwards() -> None:
    room = Room()
    leader, follower = room.completing(2)
    waiting = room.sync(follower)
    room.wait_alive_ms(2 * SESSION_MS, leader)
    assert room.is_parked(waiting)
    room.synced(leader, parts={})
    room.wait_ms(SESSION_MS - 1)
    assert room.state == "Stable"
    room.wait_ms(1)
    assert room.state == "Empty"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_nobody_gets_a_part_that_could_not_be_written(error: ErrorCode, code: ErrorCode) -> None:
    room = Room()
    leader, follower = room.completing(2)
    waiting = room.sync(follower)
    room.driver.append_error = error
    assert room.synced(leader, parts={leader: b"1", follower: b"2"}).error_code is code
    assert room.answer(waiting).error_code is code
    assert room.state == "CompletingRebalance"
    # Both learn the generation again, and try once more.
    room.driver.append_error = None
    assert {room.answer(token).generation_id for token in room.rejoin(leader, follower).values()} == {1}
    assert room.share_out([leader, follower])[follower] == b"part of " + follower.encode()


def test_a_group_whose_parts_can_never_be_written_loses_those_who_give_up() -> None:
    room = Room()
    leader, follower = room.completing(2)
    room.sync(follower)
    room.driver.append_error = ErrorCode.MESSAGE_TOO_LARGE
    room.synced(leader, parts={leader: b"1"})
    room.driver.append_error = None
    room.wait_ms(SESSION_MS + REBALANCE_MS)
    assert room.state == "Empty"

"""Heartbeats and departures: how a classic group notices that somebody is there, and that somebody is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.coordinator.group.classic_room import DELAY_MS, GROUP, SESSION_MS, Room, Words
from tidelog.coordinator import Client, Command, Written
from tidelog.coordinator.group.classic import ClassicGroup, SessionTimer
from tidelog.coordinator.group.records import group_record, read_group_value
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest


def commit_code(
    room: Room,
    member_id: str,
    *,
    epoch: int | None = None,
    instance_id: str | None = None,
    is_transactional: bool = False,
) -> ErrorCode:
    try:
        room.group.check_commit(
            member_id=member_id,
            instance_id=instance_id,
            epoch=room.group.generation if epoch is None else epoch,
            is_transactional=is_transactional,
        )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


# The table of states.


def test_empty_nobody_is_known_and_anybody_may_commit() -> None:
    room = Room()
    (member_id,) = room.stable(1)
    room.leave(member_id)
    assert room.state == "Empty"
    assert room.beat(member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(room, "", epoch=-1) is ErrorCode.NONE
    assert commit_code(room, member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(room, "", epoch=-1, is_transactional=True) is ErrorCode.NONE


def test_preparing_members_hear_that_they_have_to_join_and_may_commit() -> None:
    room = Room()
    leader, follower = room.stable(2)
    room.rejoin(leader)
    assert room.state == "PreparingRebalance"
    assert room.beat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_code(room, follower) is ErrorCode.NONE


def test_completing_members_are_there_and_may_not_commit() -> None:
    room = Room()
    leader, _ = room.completing(2)
    assert room.beat(leader) is ErrorCode.NONE
    assert commit_code(room, leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_code(room, leader, is_transactional=True) is ErrorCode.NONE


def test_stable_members_are_there_and_may_commit() -> None:
    room = Room()
    leader, static = room.stable(1, instances=("i",))
    assert room.beat(leader) is ErrorCode.NONE
    assert commit_code(room, leader) is ErrorCode.NONE
    assert commit_code(room, static, instance_id="i") is ErrorCode.NONE
    assert commit_code(room, "", epoch=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(room, "", epoch=-1, is_transactional=True) is ErrorCode.NONE
    assert commit_code(room, leader, epoch=-1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(room, leader, epoch=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(room, leader, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert commit_code(room, leader, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(room, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    room.group.check_fetch(member_id="stranger", epoch=17)


def test_a_heartbeat_is_checked() -> None:
    room = Room()
    assert room.beat("anybody") is ErrorCode.UNKNOWN_MEMBER_ID
    leader, static = room.stable(1, instances=("i",))
    assert room.beat("stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert room.beat("stranger", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(leader, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert room.beat(static, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(static, instance_id="i") is ErrorCode.NONE


def test_without_a_group_id_nothing_is_asked_of_any_group() -> None:
    room = Room()
    beat = HeartbeatRequest(group_id="", generation_id=0, member_id="")
    assert room.driver.ask(beat, version=4).error_code is ErrorCode.INVALID_GROUP_ID
    leave = LeaveGroupRequest(group_id="", members=(MemberIdentity(member_id="x"),))
    assert room.driver.ask(leave, version=5).error_code is ErrorCode.INVALID_GROUP_ID


def test_a_heartbeat_touches_nothing_but_a_timer() -> None:
    room = Room()
    (member_id,) = room.stable(1)
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    decision = room.driver.machine.decide(Command(99, request, Client("client", "/h", 4)), room.driver.now)
    assert (decision.records, decision.changes) == ((), ())
    assert [timer.key for timer in decision.timers] == [SessionTimer(GROUP, member_id)]
    assert decision.is_told_at_once


# Sessions.


def test_a_member_that_is_silent_for_its_session_timeout_is_gone() -> None:
    room = Room()
    leader, silent = room.stable(2)
    room.wait_alive_ms(SESSION_MS - 1_000, leader)
    assert room.state == "Stable"
    room.wait_alive_ms(1_000, leader)
    assert room.state == "PreparingRebalance"
    assert room.beat(silent) is ErrorCode.UNKNOWN_MEMBER_ID
    tokens = room.rejoin(leader)
    assert room.answer(tokens[leader]).generation_id == 2


def test_a_silent_member_is_not_waited_for_when_everybody_else_has_joined() -> None:
    room = Room()
    leader, _silent = room.stable(2)
    tokens = room.rejoin(leader)
    room.wait_ms(SESSION_MS)
    assert room.answer(tokens[leader]).generation_id == 2
    assert {*room.group.members.by_id} == {leader}


def test_a_silent_leader_makes_those_who_wait_for_it_join_again() -> None:
    room = Room()
    _leader, follower = room.completing(2)
    waiting = room.sync(follower)
    room.wait_ms(SESSION_MS)
    assert room.answer(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = room.rejoin(follower)
    assert room.answer(tokens[follower]).leader == follower


def test_whoever_waits_in_a_join_need_not_send_heartbeats() -> None:
    room = Room()
    leader, slow = room.stable(2)
    tokens = room.rejoin(leader)
    room.wait_alive_ms(3 * SESSION_MS, slow)
    assert room.is_parked(tokens[leader])
    tokens |= room.rejoin(slow)
    assert room.answer(tokens[leader]).error_code is ErrorCode.NONE
    room.wait_alive_ms(SESSION_MS, slow)
    assert leader not in room.group.members


def test_a_zombie_that_slept_over_its_session_is_told_so_whatever_it_does() -> None:
    room = Room()
    leader, zombie, static = room.stable(2, instances=("i",))
    room.wait_alive_ms(SESSION_MS, leader)
    room.answer(room.rejoin(leader)[leader])
    room.share_out([leader])
    assert room.group.generation == 2
    for member_id, instance_id in ((zombie, None), (static, "i")):
        assert room.beat(member_id, 1, instance_id) is ErrorCode.UNKNOWN_MEMBER_ID
        assert room.synced(member_id, 1, instance_id=instance_id).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        assert commit_code(room, member_id, epoch=1, instance_id=instance_id) is ErrorCode.UNKNOWN_MEMBER_ID
        assert room.joined(member_id=member_id, instance_id=instance_id).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    # One that is a member still, but of the generation before, and one whose place was taken.
    room.park(instance_id="i")
    room.rejoin(leader)
    assert commit_code(room, leader, epoch=2) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(room, static, epoch=2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


# Leaving.


@pytest.mark.parametrize("make", [Room.completing, Room.stable])
@pytest.mark.parametrize("who", [0, 1])
def test_whoever_leaves_makes_the_others_join_again(make: Callable[..., list[str]], who: int) -> None:
    room = Room()
    ids = make(room, 3)
    gone = ids.pop(who)
    assert room.leave(gone).members[0].error_code is ErrorCode.NONE
    assert room.state == "PreparingRebalance"
    assert room.beat(gone) is ErrorCode.UNKNOWN_MEMBER_ID
    tokens = room.rejoin(*ids)
    assert {room.answer(token).leader for token in tokens.values()} == {ids[0]}
    room.share_out(ids)
    room.driver.fail_over()
    assert {*room.group.members.by_id} == {*ids}


def test_whoever_leaves_while_it_waits_is_told_that_it_is_not_a_member() -> None:
    room = Room()
    member_id, token = room.park()
    room.leave(member_id)
    assert room.answer(token).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = room.completing(2)
    waiting = room.sync(follower)
    room.leave(follower)
    assert room.answer(waiting).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.group.leader == leader


def test_whoever_leaves_is_not_waited_for() -> None:
    room = Room()
    leader, follower = room.stable(2)
    tokens = room.rejoin(leader)
    room.leave(follower)
    assert room.answer(tokens[leader]).generation_id == 2


def test_the_first_members_wait_to_the_end_even_if_one_of_them_leaves() -> None:
    room = Room()
    member_id, token = room.park()
    other, _ = room.park()
    room.leave(other)
    assert room.is_parked(token)
    room.wait_ms(2 * DELAY_MS)
    assert room.answer(token).members[0].member_id == member_id


def test_a_group_that_everybody_leaves_is_empty_and_that_is_written_down() -> None:
    room = Room()
    ids = room.stable(2)
    room.wait_alive_ms(5_000, *ids)
    room.leave(*ids)
    assert room.state == "Empty"
    value = read_group_value(room.driver.log[-1].value or b"")
    assert (value.generation, value.members, value.leader, value.protocol) == (2, (), None, None)
    assert value.protocol_type == "consumer"
    assert room.group.empty_since_ms == value.state_timestamp_ms == room.driver.now.wall_ms
    room.driver.fail_over()
    assert room.state == "Empty"
    assert room.group.generation == 2
    room.completing(1)
    assert room.group.generation == 3


def test_an_id_that_has_not_joined_yet_may_leave_without_a_rebalance() -> None:
    room = Room()
    (leader,) = room.stable(1)
    pending = room.new_id()
    assert room.leave(pending).members[0].error_code is ErrorCode.NONE
    assert room.state == "Stable"
    assert not room.group.pending
    other = room.new_id()
    tokens = room.rejoin(leader)
    assert room.is_parked(tokens[leader])
    room.leave(other)
    assert room.answer(tokens[leader]).generation_id == 2


def test_several_leave_at_once_and_each_is_answered() -> None:
    room = Room()
    leader, second, static, other = room.stable(2, instances=("i", "j"))
    response = room.leave(
        MemberIdentity(member_id=second),
        MemberIdentity(member_id=second),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id=leader, group_instance_id="j"),
        MemberIdentity(member_id=static, group_instance_id="nobody"),
        MemberIdentity(member_id="stranger"),
    )
    assert response.error_code is ErrorCode.NONE
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert response.members[2].group_instance_id == "i"
    assert {*room.group.members.by_id} == {leader, other}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_clients_leave_alone_and_hear_about_nobody_else(version: int) -> None:
    room = Room()
    _leader, follower = room.stable(2)
    asked = LeaveGroupRequest(group_id=GROUP, member_id=follower)
    assert room.driver.ask(asked, version=version).error_code is ErrorCode.NONE
    assert room.driver.ask(asked, version=version).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.leave("stranger", version=version).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_leaves_with_nobody() -> None:
    room = Room()
    left = room.leave("anybody")
    assert left.error_code is ErrorCode.NONE
    assert [(one.member_id, one.error_code) for one in left.members] == [("anybody", ErrorCode.UNKNOWN_MEMBER_ID)]
    room.stable(1)
    response = room.leave()
    assert (response.error_code, response.members) == (ErrorCode.NONE, ())
    assert room.state == "Stable"


def test_a_departure_that_could_not_be_written_did_not_happen_until_the_session_ends() -> None:
    room = Room()
    (member_id,) = room.stable(1)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert room.leave(member_id).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.state == "Stable"
    room.wait_ms(SESSION_MS + 5_000)
    assert room.state == "Stable"
    room.driver.append_error = None
    room.wait_ms(1_000)
    assert room.state == "Empty"


def test_a_tombstone_is_the_end_of_a_group_and_its_timers_ring_for_nothing() -> None:
    room = Room()
    room.leave(*room.stable(1))
    room.new_id()
    tombstone = group_record(GROUP, None)
    room.driver.machine.replay(tombstone, Written(len(room.driver.log)))
    room.driver.log.append(tombstone)
    assert room.book.groups == {}
    room.wait_ms(10 * SESSION_MS)
    room.driver.fail_over()
    assert room.book.groups == {}


def test_while_its_partition_is_read_members_go_on() -> None:
    room = Room()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    asked = {
        HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"): ErrorCode.NONE,
        SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m"): ErrorCode.REBALANCE_IN_PROGRESS,
        LeaveGroupRequest(group_id=GROUP, members=()): loading,
        Words().request(): loading,
    }
    for request, code in asked.items():
        response = room.driver.machine.refusal(Command(1, request, Client("c", "/h", 4)), loading)
        assert response.error_code is code  # type: ignore[attr-defined]


def test_a_group_knows_which_topics_its_consumers_read() -> None:
    def subscription(*topics: str, version: int = 1) -> bytes:
        said = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
        return (
            version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + said + b"\xff\xff\xff\xff" + b"\0" * version
        )

    room = Room()
    room.park(protocols=(("range", subscription("a", "b", version=0)),))
    assert room.group.is_subscribed_to("c")  # Nobody can tell before there is a generation.
    room.park(protocols=(("range", subscription("b", "d", version=9)),))
    room.wait_for_generation()
    assert [room.group.is_subscribed_to(topic) for topic in "abcd"] == [True, True, False, True]
    assert not room.group.is_empty
    assert room.group.empty_since_ms is None
    unreadable = Room()
    unreadable.stable(1, protocols=(("range", b"\0\1\0\0\0\7"),))
    assert unreadable.group.is_subscribed_to("c")
    others = Room()
    others.stable(1, protocol_type="connect", protocols=(("range", subscription("a")),))
    assert others.group.is_subscribed_to("c")
    others.leave(*others.group.members.by_id)
    assert not others.group.is_subscribed_to("a")
    assert ClassicGroup(group_id="simple").empty_since_ms is None

"""JoinGroup: who may join a classic group, under which name, and when it is told the generation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.group.classic_room import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Room
from tidelog.coordinator.group.classic.joining import PENDING_MAX
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode


def test_a_dynamic_member_is_given_an_id_and_asked_to_come_back() -> None:
    room = Room()
    response = room.joined(client_id="reader")
    assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("reader-")
    assert len(response.member_id) == len("reader-") + 36
    assert room.state == "Empty"
    assert room.driver.log == []


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_clients_join_at_once(version: int) -> None:
    room = Room()
    token = room.join(version=version)
    assert room.state == "PreparingRebalance"
    room.wait_ms(DELAY_MS)
    response = room.answer(token)
    assert response.error_code is ErrorCode.NONE
    assert response.leader == response.member_id
    assert response.generation_id == 1


def test_without_a_rebalance_timeout_the_session_timeout_is_taken_for_it() -> None:
    room = Room()
    room.join(version=0, rebalance_ms=-1, session_ms=7_000)
    assert room.group.members.rebalance_timeout_ms == 7_000


def test_an_id_that_was_given_out_is_forgotten_after_the_session_timeout() -> None:
    room = Room()
    member_id = room.new_id()
    room.wait_ms(SESSION_MS)
    assert not room.group.pending
    assert room.joined(member_id=member_id).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_oldest_id_is_forgotten_when_too_many_were_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PENDING_MAX == 2_000
    monkeypatch.setattr("tidelog.coordinator.group.classic.joining.PENDING_MAX", 3)
    room = Room()
    first, *others = [room.new_id() for _ in range(4)]
    assert list(room.group.pending) == others
    assert room.joined(member_id=first).error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 40_000}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "i" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (("p" * 40_000, b""),)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_join_makes_no_group(said: dict[str, Any], code: ErrorCode) -> None:
    room = Room()
    assert room.joined(**said).error_code is code
    assert room.book.groups == {}


def test_a_long_client_name_still_makes_an_id_that_can_be_written() -> None:
    room = Room()
    member_id = room.new_id(client_id="ü" * 16_000)
    token = room.join(member_id=member_id)
    room.wait_ms(DELAY_MS)
    room.share_out([room.answer(token).member_id])
    room.driver.fail_over()
    assert member_id in room.group.members


def test_a_member_of_another_type_or_without_a_common_protocol_does_not_get_in() -> None:
    room = Room()
    room.stable(2, protocols=(("range", b""), ("roundrobin", b"")))
    assert room.joined(protocol_type="connect").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.joined(protocols=(("sticky", b""),)).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.joined(protocols=(("sticky", b""), ("range", b""))).error_code is ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_may_change_its_type() -> None:
    room = Room()
    ids = room.stable(1)
    room.leave(*ids)
    room.completing(1, protocol_type="connect")
    assert room.group.protocol_type == "connect"


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    room = Room()
    room.completing(1, protocols=(("range", b"first"), ("range", b"second")))
    assert room.group.members.support == {"range": 1}
    (member,) = room.group.members
    assert member.metadata("range") == b"first"


def test_the_first_members_wait_for_others() -> None:
    room = Room()
    first, token = room.park()
    room.wait_ms(DELAY_MS - 1)
    assert room.is_parked(token)
    second, other = room.park()
    room.wait_ms(1)
    assert room.is_parked(token)
    room.wait_ms(DELAY_MS)
    responses = room.complete({first: token, second: other})
    assert {response.generation_id for response in responses.values()} == {1}
    assert {response.leader for response in responses.values()} == {first}
    assert [member.member_id for member in responses[first].members] == [first, second]
    assert responses[second].members == ()


def test_newcomers_extend_the_first_wait_no_further_than_the_rebalance_timeout() -> None:
    room = Room()
    _, token = room.park(rebalance_ms=10_000)
    for _ in range(9):
        room.wait_ms(1_000)
        room.park(rebalance_ms=10_000)
        assert room.is_parked(token)
    room.wait_ms(1_000)
    assert room.answer(token).error_code is ErrorCode.NONE
    assert len(room.group.members) == 10


def test_without_a_delay_the_first_member_need_not_wait() -> None:
    room = Room(GroupSettings(initial_rebalance_delay_ms=0))
    _, token = room.park()
    room.wait_ms(0)
    assert room.answer(token).error_code is ErrorCode.NONE


def test_the_protocol_that_most_like_best_is_chosen_among_those_that_all_support() -> None:
    room = Room()
    for likes in (["a", "b", "c"], ["b", "c"], ["c", "b", "a"], ["d", "c", "b"]):
        room.park(protocols=tuple((name, name.encode()) for name in likes))
    room.wait_for_generation()
    # a and d are out; b has two votes, c has two, and b had its first one earlier.
    assert room.group.protocol == "b"
    token = room.rejoin(*room.group.members.by_id)
    assert room.answer(token[room.group.leader or ""]).protocol_name == "b"


def test_a_join_waits_until_everybody_has_joined_again() -> None:
    room = Room()
    leader, follower = room.stable(2)
    newcomer, token = room.park()
    assert room.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = room.rejoin(follower)
    assert room.is_parked(token)
    tokens |= room.rejoin(leader)
    responses = room.complete({**tokens, newcomer: token})
    assert {response.generation_id for response in responses.values()} == {2}
    assert {response.leader for response in responses.values()} == {leader}


def test_a_slow_dynamic_member_is_left_behind_after_the_longest_rebalance_timeout() -> None:
    room = Room()
    leader, slow = room.stable(2, session_ms=300_000)
    newcomer, token = room.park(rebalance_ms=5_000)
    tokens = room.rejoin(leader)
    room.wait_alive_ms(REBALANCE_MS - 1_000, slow)
    assert room.is_parked(token)
    room.wait_ms(1_000)
    assert {*room.group.members.by_id} == {leader, newcomer}
    assert room.answer(tokens[leader]).generation_id == room.answer(token).generation_id == 2
    assert room.beat(slow) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_eldest_leads_if_the_leader_was_left_behind() -> None:
    room = Room()
    leader, second, third = room.stable(3, session_ms=300_000)
    room.park()
    room.rejoin(third)
    room.rejoin(second)
    room.wait_ms(REBALANCE_MS)
    assert leader not in room.group.members
    assert room.group.leader == second


def test_whoever_joined_first_leads_while_a_static_leader_is_away() -> None:
    room = Room()
    leader, _second, third = room.stable(0, instances=("a", "b", "c"), session_ms=300_000)
    room.rejoin(third)
    room.join(member_id=third, instance_id="c", protocols=(("range", b"something new"),))
    room.wait_ms(REBALANCE_MS)
    assert leader in room.group.members
    assert room.group.leader == third


def test_an_id_that_has_not_come_back_is_waited_for() -> None:
    room = Room()
    (leader,) = room.stable(1)
    pending = room.new_id()
    _, newcomer = room.park()
    tokens = room.rejoin(leader)
    assert room.is_parked(newcomer)
    last = room.join(member_id=pending)
    assert room.answer(tokens[leader]).generation_id == room.answer(last).generation_id == 2
    assert len(room.group.members) == 3


def test_an_id_that_does_not_come_back_holds_up_nobody_beyond_its_session_timeout() -> None:
    room = Room()
    (leader,) = room.stable(1)
    room.new_id()
    tokens = room.rejoin(leader)
    assert room.is_parked(tokens[leader])
    room.wait_ms(SESSION_MS)
    assert room.answer(tokens[leader]).generation_id == 2


def test_a_member_that_asks_twice_is_answered_once_more() -> None:
    room = Room()
    member_id, first = room.park()
    second = room.join(member_id=member_id)
    assert room.answer(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    room.wait_ms(DELAY_MS)
    assert room.answer(second).error_code is ErrorCode.NONE
    assert len(room.group.members) == 1


def test_a_member_that_missed_the_answer_hears_the_same_generation_again() -> None:
    room = Room()
    leader, follower = room.completing(2)
    again = room.rejoin(leader, follower)
    assert room.answer(again[leader]).generation_id == 1
    assert len(room.answer(again[leader]).members) == 2
    assert room.answer(again[follower]).members == ()
    assert room.state == "CompletingRebalance"


def test_a_member_with_something_new_to_say_makes_everybody_join_again() -> None:
    for make in (Room.completing, Room.stable):
        room = Room()
        leader, follower = make(room, 2)
        token = room.join(member_id=follower, protocols=(("range", b"something new"),))
        assert room.is_parked(token)
        assert room.state == "PreparingRebalance"
        tokens = room.rejoin(leader)
        assert [member.metadata for member in room.answer(tokens[leader]).members] == [b"me", b"something new"]


def test_in_a_stable_group_a_follower_hears_the_generation_and_the_leader_begins_a_new_one() -> None:
    room = Room()
    leader, follower = room.stable(2)
    assert room.answer(room.rejoin(follower)[follower]).generation_id == 1
    assert room.state == "Stable"
    token = room.rejoin(leader)[leader]
    assert room.is_parked(token)
    assert room.state == "PreparingRebalance"


def test_somebody_new_waits_five_minutes_at_most() -> None:
    room = Room(GroupSettings(max_session_timeout_ms=10**7))
    (slow,) = room.stable(1, session_ms=10**7, rebalance_ms=10**7)
    newcomer, token = room.park()
    room.wait_ms(5 * 60_000 - 1)
    assert room.is_parked(token)
    room.wait_ms(1)
    assert room.answer(token).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer not in room.group.members
    assert slow in room.group.members


def test_a_full_group_takes_nobody_else() -> None:
    room = Room(GroupSettings(max_size=2))
    ids = room.stable(2)
    assert room.joined().error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.joined(instance_id="static").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.state == "Stable"
    assert {*room.group.members.by_id} == {*ids}


def test_while_a_group_is_rebalanced_those_who_come_first_stay() -> None:
    room = Room(GroupSettings(max_size=2))
    pending = [room.new_id() for _ in range(4)]
    tokens = [room.join(member_id=member_id) for member_id in pending]
    assert [room.answer(token).error_code for token in tokens[2:]] == [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert not room.group.pending
    room.wait_ms(10 * DELAY_MS)
    assert [room.answer(token).error_code for token in tokens[:2]] == [ErrorCode.NONE] * 2


def test_a_group_that_is_too_large_after_a_fail_over_shrinks_as_soon_as_everybody_has_spoken() -> None:
    room = Room()
    ids = room.stable(3)
    room.settings = GroupSettings(max_size=2)
    room.driver.fail_over()
    assert room.state == "PreparingRebalance"
    tokens = room.rejoin(*ids)
    codes = [room.answer(tokens[member_id]).error_code for member_id in ids]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert room.state == "CompletingRebalance"


def test_an_id_that_was_given_to_a_dynamic_member_is_none_of_a_static_one() -> None:
    room = Room()
    pending = room.new_id()
    assert room.joined(member_id=pending, instance_id="i").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    room.stable(1, instances=("i",))
    assert room.joined(member_id=pending, instance_id="i").error_code is ErrorCode.FENCED_INSTANCE_ID


def test_groups_do_not_share_anything() -> None:
    room = Room()
    room.stable(1)
    token = room.join(version=3, group_id="another")
    room.wait_ms(DELAY_MS)
    assert room.answer(token).error_code is ErrorCode.NONE
    assert len(room.group.members) == 1
    assert {*room.book.groups} == {GROUP, "another"}

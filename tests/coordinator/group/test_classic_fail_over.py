"""Another broker takes over: what was written is there, what was not is asked for again, and nobody waits in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.coordinator.group.classic_room import DELAY_MS, SESSION_MS, Room
from tidelog.coordinator.group.classic import ClassicGroup
from tidelog.model import ErrorCode


def test_a_stable_group_goes_on_as_if_nothing_had_happened() -> None:
    room = Room()
    ids = room.stable(2, instances=("i",))
    before = room.group
    room.driver.fail_over()
    assert room.group == before
    for member_id in ids:
        assert room.beat(member_id) is ErrorCode.NONE
        assert room.synced(member_id).assignment == b"part of " + member_id.encode()


def test_sessions_begin_again_when_the_partition_was_read() -> None:
    room = Room()
    alive, _silent = room.stable(2)
    room.wait_ms(SESSION_MS - 1)
    room.driver.fail_over()
    room.wait_ms(SESSION_MS - 1)
    assert room.beat(alive) is ErrorCode.NONE
    room.wait_ms(1)
    assert {*room.group.members.by_id} == {alive}


def test_groups_are_taken_over_one_by_one_and_those_without_members_in_passing() -> None:
    room = Room()
    room.stable(2)
    (group,) = room.book.groups.values()
    assert isinstance(group, ClassicGroup)
    for number in range(5_000):
        name = f"empty-{number}"
        room.book.groups[name] = ClassicGroup(group_id=name)
        if number % 1_000 == 0:
            room.book.groups[f"full-{number}"] = replace(group, group_id=f"full-{number}")
    decisions = list(room.driver.machine.on_loaded(room.driver.now))
    sessions = [decision.timers for decision in decisions if decision.timers]
    assert [len(timers) for timers in sessions] == [2] * 6
    assert len(decisions) < 20


def test_a_group_that_was_never_written_begins_again() -> None:
    room = Room()
    pending = room.new_id()
    member_id, token = room.park()
    room.driver.fail_over()
    assert room.answer(token).error_code is ErrorCode.NOT_COORDINATOR
    assert room.book.groups == {}
    for known in (pending, member_id):
        assert room.joined(member_id=known).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(room.stable(2)) == 2


def test_a_generation_that_was_not_written_is_unknown_and_the_one_before_counts() -> None:
    room = Room()
    leader, follower = room.stable(2)
    tokens = room.rejoin(leader, follower)
    assert room.answer(tokens[leader]).generation_id == 2
    waiting = room.sync(follower, 2)
    room.driver.fail_over()
    assert room.answer(waiting).error_code is ErrorCode.NOT_COORDINATOR
    assert room.beat(follower, 2) is ErrorCode.ILLEGAL_GENERATION
    assert room.synced(leader, 2, parts={}).error_code is ErrorCode.ILLEGAL_GENERATION
    # They join again as the members that they were.
    tokens = room.rejoin(follower, leader)
    assert room.answer(tokens[follower]).generation_id == 1
    tokens |= room.rejoin(follower)
    assert room.answer(tokens[leader]).generation_id == 2


@pytest.mark.parametrize("moment", ["pending", "preparing", "completing", "stable", "again", "empty"])
def test_after_a_fail_over_in_any_state_everybody_settles_again(moment: str) -> None:
    room = Room()
    ids: list[str] = []
    if moment == "pending":
        room.new_id()
    elif moment == "preparing":
        room.park()
    elif moment == "completing":
        ids = room.completing(2)
    else:
        ids = room.stable(2)
        if moment == "again":
            room.rejoin(ids[0])
        if moment == "empty":
            room.leave(*ids)
    room.driver.fail_over()
    room.park()
    known = [member_id for member_id in ids if member_id in room.group.members]
    room.rejoin(*known)
    room.wait_for_generation()
    members = list(room.group.members.by_id)
    parts = room.share_out(members)
    assert parts == {member_id: b"part of " + member_id.encode() for member_id in members}
    assert len(members) == len(known) + 1
    assert not room.driver.waiting


def test_after_a_fail_over_a_member_may_change_its_protocols_only_to_what_the_group_used() -> None:
    room = Room()
    both = (("range", b"me"), ("sticky", b"me"))
    leader, follower = room.stable(2, protocols=both)
    room.driver.fail_over()
    # Only the protocol in use was written down; who brings it along is let in, and brings the other one back.
    refused = room.joined(member_id=follower, protocols=(("sticky", b"me"),))
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    room.join(member_id=follower, protocols=both)
    token = room.join(member_id=leader, protocols=both)
    assert room.answer(token).protocol_name == "range"
    assert room.group.members.support == {"range": 2, "sticky": 2}


def test_the_first_wait_begins_anew_in_an_empty_group() -> None:
    room = Room()
    room.leave(*room.stable(1))
    room.driver.fail_over()
    _, token = room.park()
    room.wait_ms(DELAY_MS - 1)
    assert room.is_parked(token)
    room.wait_ms(1)
    assert room.answer(token).generation_id == 3

"""Static members (KIP-345): who restarts keeps its place, and nobody else notices."""

from __future__ import annotations

import pytest

from tests.coordinator.group.classic_room import REBALANCE_MS, SESSION_MS, Room
from tidelog.model import ErrorCode


def test_a_static_member_joins_at_once_under_an_id_made_of_its_name() -> None:
    room = Room()
    token = room.join(instance_id="worker-7")
    room.wait_for_generation()
    assert room.answer(token).member_id.startswith("worker-7-")


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_follower_that_restarts_gets_its_part_back_without_a_rebalance(version: int) -> None:
    room = Room()
    leader, former = room.stable(1, instances=("i",))
    response = room.joined(instance_id="i", version=version)
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
    assert (response.leader, response.members, response.skip_assignment) == (leader, (), False)
    assert response.member_id not in (former, leader)
    assert room.state == "Stable"
    assert room.synced(response.member_id, instance_id="i").assignment == b"part of " + former.encode()
    assert room.synced(former, instance_id="i").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert room.synced(former).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(former, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert room.joined(member_id=former, instance_id="i").error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_restarts_is_told_not_to_assign() -> None:
    room = Room()
    former, follower = room.stable(0, instances=("i", "j"))
    response = room.joined(instance_id="i", version=9)
    assert response.leader == response.member_id != former
    assert response.skip_assignment
    assert [member.member_id for member in response.members] == [follower, response.member_id]
    assert {member.group_instance_id for member in response.members} == {"i", "j"}


def test_an_older_leader_that_restarts_is_told_that_somebody_else_leads() -> None:
    room = Room()
    former, _ = room.stable(0, instances=("i", "j"))
    response = room.joined(instance_id="i", version=8)
    assert (response.leader, response.members, response.skip_assignment) == (former, (), False)
    assert room.group.leader == response.member_id


def test_a_restart_is_written_down_before_it_is_told() -> None:
    room = Room()
    _, former = room.stable(1, instances=("i",))
    response = room.joined(instance_id="i")
    assert len(room.driver.log) == 2
    room.driver.fail_over()
    assert room.group.members.by_instance == {"i": response.member_id}
    assert former not in room.group.members
    assert room.beat(response.member_id, instance_id="i") is ErrorCode.NONE


def test_a_restart_that_could_not_be_written_did_not_happen() -> None:
    room = Room()
    _, former = room.stable(1, instances=("i",))
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    response = room.joined(instance_id="i")
    assert (response.error_code, response.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert room.beat(former, instance_id="i") is ErrorCode.NONE


def test_a_restart_that_changes_the_protocol_makes_everybody_join_again() -> None:
    room = Room()
    both = (("range", b"me"), ("sticky", b"me"))
    first, second = room.stable(0, instances=("i", "j"), protocols=both)
    assert room.group.protocol == "range"
    token = room.join(instance_id="j", protocols=(("sticky", b"me"),))
    assert room.is_parked(token)
    assert room.state == "PreparingRebalance"
    tokens = room.rejoin(first)
    assert room.answer(tokens[first]).protocol_name == room.answer(token).protocol_name == "sticky"
    assert second not in room.group.members


def test_a_restart_with_another_subscription_but_the_same_protocol_is_only_noted() -> None:
    room = Room()
    _, former = room.stable(1, instances=("i",))
    response = room.joined(instance_id="i", protocols=(("range", b"something new"),))
    assert response.generation_id == 1
    room.driver.fail_over()
    assert room.group.members[response.member_id].metadata("range") == b"something new"
    assert room.synced(response.member_id).assignment == b"part of " + former.encode()


def test_a_restart_during_a_rebalance_takes_the_place_and_fences_whoever_waits_in_it() -> None:
    room = Room()
    leader, former = room.stable(1, instances=("i",))
    waiting = room.join(member_id=former, instance_id="i", protocols=(("range", b"something new"),))
    assert room.state == "PreparingRebalance"
    token = room.join(instance_id="i")
    fenced = room.answer(waiting)
    assert (fenced.error_code, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, former)
    tokens = room.rejoin(leader)
    assert room.answer(tokens[leader]).generation_id == room.answer(token).generation_id == 2
    assert len(room.group.members) == 2


def test_a_restart_while_the_leader_assigns_makes_everybody_join_again() -> None:
    room = Room()
    leader, former = room.completing(1, instances=("i",))
    waiting = room.sync(former, instance_id="i")
    token = room.join(instance_id="i")
    assert room.answer(waiting).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert room.state == "PreparingRebalance"
    tokens = room.rejoin(leader)
    assert room.answer(tokens[leader]).generation_id == room.answer(token).generation_id == 2


def test_a_restart_in_the_first_wait_does_not_end_it() -> None:
    room = Room()
    first = room.join(instance_id="i")
    second = room.join(instance_id="i")
    assert room.answer(first).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert room.is_parked(second)
    room.wait_for_generation()
    assert room.answer(second).leader == room.answer(second).member_id


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends() -> None:
    room = Room()
    leader, away = room.stable(1, instances=("i",), session_ms=100_000)
    tokens = room.rejoin(leader)
    room.wait_ms(REBALANCE_MS)
    # The generation goes on without it, but it is still introduced to the leader, and gets a part.
    assert {member.member_id for member in room.answer(tokens[leader]).members} == {leader, away}
    room.synced(leader, parts={leader: b"1", away: b"2"})
    assert room.joined(instance_id="i").generation_id == 2


def test_a_group_whose_static_members_are_all_away_waits_for_their_sessions_to_end() -> None:
    room = Room()
    dynamic, _away = room.stable(1, instances=("i",), session_ms=200_000)
    room.leave(dynamic)
    room.wait_ms(2 * REBALANCE_MS)
    assert room.state == "PreparingRebalance"
    assert len(room.group.members) == 1
    room.wait_ms(200_000)
    assert room.state == "Empty"


def test_a_group_that_nobody_leads_does_not_look_again_all_the_time() -> None:
    """Its only member says that it needs no time to rebalance, and is away for half an hour."""
    room = Room()
    dynamic, _ = room.stable(1, instances=("i",), session_ms=1_800_000)
    room.joined(instance_id="i", session_ms=1_800_000, rebalance_ms=0)
    room.leave(dynamic)
    for _ in range(3):
        room.driver.wait_ms(room.next_ring_ms)
        assert room.state == "PreparingRebalance"
        assert room.next_ring_ms >= 1_000
    assert room.joined(instance_id="i").error_code is ErrorCode.NONE


def test_a_static_member_that_is_back_is_waited_for_like_any_other() -> None:
    room = Room()
    leader, _ = room.stable(1, instances=("i",))
    response = room.joined(instance_id="i")
    room.wait_alive_ms(SESSION_MS, leader)
    assert room.state == "PreparingRebalance"
    assert response.member_id not in room.group.members


def test_a_static_member_that_restarted_before_it_had_its_part_has_to_ask_for_it_in_time() -> None:
    room = Room()
    leader, former = room.completing(1, instances=("i",), session_ms=300_000)
    room.synced(leader, parts={leader: b"1", former: b"2"})
    lazy = room.joined(instance_id="i", session_ms=300_000).member_id
    room.wait_ms(REBALANCE_MS)
    assert lazy not in room.group.members
    assert room.state == "PreparingRebalance"

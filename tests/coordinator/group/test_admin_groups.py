"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import OffsetRoom
from tidelog.coordinator import Client, Command
from tidelog.coordinator.group.administration.deletion import PATIENCE_MS, TOMBSTONES_MAX
from tidelog.coordinator.group.book import GroupKind
from tidelog.coordinator.group.offsets.area import ExpiryTimer
from tidelog.model import ErrorCode
from tidelog.wire.definition import Request
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

A, B = ("orders", 0), ("orders", 1)


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom()


def listed(room: OffsetRoom, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    response = room.driver.ask(ListGroupsRequest(states_filter=states, types_filter=types), version=5)
    assert response.error_code is ErrorCode.NONE
    return [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in response.groups]


def described(room: OffsetRoom, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
    (group,) = room.driver.ask(DescribeGroupsRequest(groups=(group_id,)), version=version).groups
    assert isinstance(group, DescribedGroup)
    return group


class ConsumerGroup:
    """What listing needs to know of a group of the consumer protocol."""

    group_id, kind, state_name, protocol_type = "modern", GroupKind.CONSUMER, "Reconciling", "consumer"


def test_groups_are_listed_with_state_and_type(room: OffsetRoom) -> None:
    assert listed(room) == []
    room.stable()
    room.commit({A: 1}, group_id="simple")
    room.book.groups["modern"] = ConsumerGroup()  # type: ignore[assignment]
    stable = (GROUP, "consumer", "Stable", "classic")
    simple = ("simple", "", "Empty", "classic")
    modern = ("modern", "consumer", "Reconciling", "consumer")
    assert listed(room) == [stable, simple, modern]
    assert listed(room, states=("empty", " STABLE")) == [stable, simple]
    assert listed(room, types=("Classic",)) == [stable, simple]
    assert listed(room, types=("consumer",), states=("Stable",)) == []
    assert listed(room, types=("share",)) == []
    assert listed(room, states=("Nonsense",)) == []


def test_a_stable_group_is_described_with_what_members_said_and_got(room: OffsetRoom) -> None:
    ids = room.stable(instances=("pinned",))
    for _ in range(2):
        group = described(room)
        assert (group.error_code, group.error_message) == (ErrorCode.NONE, None)
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        members = {member.member_id: member for member in group.members}
        assert set(members) == set(ids)
        assert {member.member_assignment for member in group.members} == {b"part of " + it.encode() for it in ids}
        assert {member.member_metadata for member in group.members} == {b"me"}
        assert {member.client_id for member in group.members} == {"client"}
        assert {member.client_host for member in group.members} == {"/127.0.0.1"}
        assert sorted(member.group_instance_id or "" for member in group.members) == ["", "", "pinned"]
        room.driver.fail_over()


def test_between_generations_nothing_is_shown_of_parts_and_subscriptions(room: OffsetRoom) -> None:
    leader, _ = room.stable()
    room.rejoin(leader)
    group = described(room)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(member.member_metadata, member.member_assignment) for member in group.members] == [(b"", b"")] * 2
    room.wait_ms(0)


def test_an_empty_group_is_described_without_members(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1)
    room.leave(member_id)
    group = described(room)
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "consumer", ())
    room.commit({A: 1}, group_id="simple")
    assert (described(room, "simple").group_state, described(room, "simple").protocol_type) == ("Empty", "")


@pytest.mark.parametrize(
    ("version", "code", "message"),
    [(5, ErrorCode.NONE, None), (6, ErrorCode.GROUP_ID_NOT_FOUND, "Group ghost not found.")],
)
def test_a_group_that_nobody_knows_is_dead(
    room: OffsetRoom, version: int, code: ErrorCode, message: str | None
) -> None:
    group = described(room, "ghost", version)
    assert (group.group_id, group.group_state, group.error_code, group.error_message) == (
        "ghost",
        "Dead",
        code,
        message,
    )


def test_a_group_of_the_consumer_protocol_is_not_found_here(room: OffsetRoom) -> None:
    room.book.groups["modern"] = ConsumerGroup()  # type: ignore[assignment]
    group = described(room, "modern")
    assert (group.group_state, group.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert group.error_message == "Group modern is not a classic group."


def test_a_deleted_group_is_gone_with_all_its_offsets(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1)
    room.commit({A: 1, B: 2}, member_id=member_id, generation=room.group.generation)
    room.commit_in_transaction(7, {("payments", 0): 3})
    assert room.delete_group() is ErrorCode.NON_EMPTY_GROUP
    assert room.fetch() == {A: 1, B: 2}
    room.leave(member_id)
    assert room.delete_group() is ErrorCode.NONE
    for _ in range(2):
        assert (listed(room), room.fetch()) == ([], {})
        assert room.delete_group() is ErrorCode.GROUP_ID_NOT_FOUND
        room.log.compact()
    room.log.end(7, is_committed=True)
    assert (listed(room), room.fetch()) == ([], {})


def test_a_small_group_is_deleted_in_one_piece(room: OffsetRoom) -> None:
    room.commit({("orders", index): index for index in range(TOMBSTONES_MAX - 1)})
    before = len(room.driver.log)
    assert room.delete_group() is ErrorCode.NONE
    assert len(room.driver.log) - before == TOMBSTONES_MAX
    assert set(room.driver.timers) == {ExpiryTimer()}


def large(room: OffsetRoom, count: int) -> int:
    """A request to delete a group with so many offsets."""
    room.commit({("orders", index): index for index in range(count)})
    room.log.record_counts.clear()
    return room.driver.send(DeleteGroupsRequest(groups_names=(GROUP,)), version=2)


def result(room: OffsetRoom, token: int) -> ErrorCode:
    (only,) = room.driver.answer(token).results
    code: ErrorCode = only.error_code
    return code


@pytest.mark.parametrize(
    "count", [pytest.param(5_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.proof)]
)
def test_a_group_with_many_offsets_is_deleted_in_slices(room: OffsetRoom, count: int) -> None:
    token = large(room, count)
    assert room.is_parked(token)
    room.wait_ms(0)
    assert result(room, token) is ErrorCode.NONE
    assert max(room.log.record_counts) == TOMBSTONES_MAX
    assert sum(room.log.record_counts) == count + 1
    assert (listed(room), room.fetch()) == ([], {})
    room.driver.fail_over()
    assert (listed(room), room.fetch()) == ([], {})


def test_long_names_make_smaller_slices(room: OffsetRoom) -> None:
    room.commit({("x" * 5_000, index): index for index in range(200)})
    room.log.record_counts.clear()
    token = room.driver.send(DeleteGroupsRequest(groups_names=(GROUP,)), version=2)
    room.wait_ms(0)
    assert result(room, token) is ErrorCode.NONE
    assert 40 < max(room.log.record_counts) < 60
    assert room.fetch() == {}


def test_a_group_that_gets_members_while_it_is_deleted_stays(room: OffsetRoom) -> None:
    token = large(room, 2_500)
    room.park()
    room.wait_ms(0)
    assert result(room, token) is ErrorCode.NON_EMPTY_GROUP
    assert len(room.fetch()) == 2_500
    assert room.state == "PreparingRebalance"


def test_a_deletion_goes_on_when_the_log_can_be_written_again(room: OffsetRoom) -> None:
    token = large(room, 2_500)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.wait_ms(PATIENCE_MS / 2)
    assert room.is_parked(token)
    room.driver.append_error = None
    room.wait_ms(1_000)
    assert result(room, token) is ErrorCode.NONE
    assert listed(room) == []


@pytest.mark.slow
def test_nobody_waits_for_ever_for_a_deletion(room: OffsetRoom) -> None:
    token = large(room, 2_500)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.wait_ms(PATIENCE_MS + 1_000)
    assert result(room, token) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(room.driver.timers) == {ExpiryTimer()}


def test_a_fail_over_in_the_middle_leaves_a_group_that_can_be_deleted_again(room: OffsetRoom) -> None:
    token = large(room, 2_500)
    (timer,) = set(room.driver.timers) - {ExpiryTimer()}
    decision = room.driver.machine.on_timer(timer, room.driver.now)
    room.log.append(decision.records)
    room.driver.fail_over()
    assert result(room, token) is ErrorCode.NOT_COORDINATOR
    assert len(room.fetch()) == 1_500
    again = room.driver.send(DeleteGroupsRequest(groups_names=(GROUP,)), version=2)
    room.wait_ms(0)
    assert result(room, again) is ErrorCode.NONE
    assert (listed(room), room.fetch()) == ([], {})


def test_each_group_of_a_deletion_has_its_own_result(room: OffsetRoom) -> None:
    room.stable()
    room.commit({A: 1}, group_id="simple")
    request = DeleteGroupsRequest(groups_names=("ghost", "simple", GROUP))
    results = room.driver.ask(request, version=2).results
    assert [(it.group_id, it.error_code) for it in results] == [
        ("ghost", ErrorCode.GROUP_ID_NOT_FOUND),
        ("simple", ErrorCode.NONE),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
    ]


def refused(room: OffsetRoom, request: Request[Any], code: ErrorCode) -> Any:
    return room.driver.machine.refusal(Command(1, request, Client("client", "/127.0.0.1", 2)), code)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_refusals_are_told_in_the_shape_of_each_request(room: OffsetRoom, said: ErrorCode, told: ErrorCode) -> None:
    listing = refused(room, ListGroupsRequest(), said)
    assert (type(listing), listing.error_code) == (ListGroupsResponse, told)
    description = refused(room, DescribeGroupsRequest(groups=("a", "b")), said)
    assert isinstance(description, DescribeGroupsResponse)
    assert [(group.group_id, group.error_code) for group in description.groups] == [("a", told), ("b", told)]
    deletion = refused(room, DeleteGroupsRequest(groups_names=("a",)), said)
    assert isinstance(deletion, DeleteGroupsResponse)
    assert [(it.group_id, it.error_code) for it in deletion.results] == [("a", told)]

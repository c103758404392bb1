"""Looking after groups: what is asked of whom, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.client.broker_world import BrokerWorld, client_config
from tests.client.scripted_brokers import TOPIC_ID, ScriptedBrokers
from tests.client.test_moving_leaders import properties
from tidelog.client import (
    Admin,
    ClientConfig,
    Committed,
    ConnectionLost,
    GroupDescription,
    GroupListing,
    MemberDescription,
    NewTopic,
    RequestRefused,
)
from tidelog.client.groups.subscription_codec import MemberAssignment, write_assignment
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages import consumer_group_describe as describing
from tidelog.wire.messages import describe_groups, list_groups, offset_commit, offset_delete, offset_fetch
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

T = TypeVar("T")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def asked(brokers: ScriptedBrokers, ask: Callable[[Admin], Coroutine[Any, Any, T]], **settings: str) -> T:
    async def story(runtime: Runtime) -> T:
        async with Admin.connect(ClientConfig.from_properties(properties(brokers, **settings)), runtime) as admin:
            return await ask(admin)

    return brokers.run(story)


def group_brokers(coordinators: dict[str, BrokerId]) -> ScriptedBrokers:
    """Three brokers, and who looks after which group."""
    brokers = ScriptedBrokers()

    def find(_node: BrokerId, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        rows = [Coordinator(key=key, node_id=coordinators[key], host="h", port=1) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(rows))

    brokers.scripts[ApiKey.FIND_COORDINATOR] = find
    return brokers


def asked_of(brokers: ScriptedBrokers, kind: type[T]) -> list[tuple[BrokerId, T]]:
    return [(node, request) for _, node, request in brokers.asked if isinstance(request, kind)]


def listing_script(_node: BrokerId, _request: object) -> list_groups.ListGroupsResponse:
    row = list_groups.ListedGroup(
        group_id=f"g{_node}", protocol_type="consumer", group_state="Stable" if _node == 2 else "Empty",
        group_type="Consumer" if _node == 3 else "Classic",
    )  # fmt: skip
    return list_groups.ListGroupsResponse(error_code=ErrorCode.NONE, groups=(row,))


def test_every_broker_is_asked_for_its_groups() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.LIST_GROUPS] = listing_script
    assert asked(brokers, lambda admin: admin.groups.list_groups()) == [
        GroupListing("g1", "classic", "Empty", "consumer", 1),
        GroupListing("g2", "classic", "Stable", "consumer", 2),
        GroupListing("g3", "consumer", "Empty", "consumer", 3),
    ]


def test_groups_are_chosen_by_state_and_kind_in_any_case() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.LIST_GROUPS] = listing_script
    found = asked(brokers, lambda admin: admin.groups.list_groups(states=["empty"], kinds=["CONSUMER"]))
    assert [group.group_id for group in found] == ["g3"]


def test_a_broker_that_loads_is_asked_again() -> None:
    brokers = ScriptedBrokers()
    refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2

    def script(node: BrokerId, request: object) -> list_groups.ListGroupsResponse:
        if node == 2 and refusals:
            return list_groups.ListGroupsResponse(error_code=refusals.pop())
        return listing_script(node, request)

    brokers.scripts[ApiKey.LIST_GROUPS] = script
    assert len(asked(brokers, lambda admin: admin.groups.list_groups())) == 3
    assert sorted(node for node, _ in asked_of(brokers, list_groups.ListGroupsRequest)) == [1, 2, 2, 2, 3]


def test_a_list_that_would_lack_the_groups_of_a_broker_is_not_given() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.LIST_GROUPS] = lambda node, request: None if node == 2 else listing_script(node, request)
    limits = {"default.api.timeout.ms": "5000", "request.timeout.ms": "1000"}
    with pytest.raises(ConnectionLost, match="LIST_GROUPS"):
        asked(brokers, lambda admin: admin.groups.list_groups(), **limits)


def consumer_member(**more: Any) -> describing.Member:
    topics = (describing.TopicPartitions(topic_id=TOPIC_ID, topic_name="t", partitions=(0, 1)),)
    return describing.Member(
        member_id="m", member_epoch=4, client_id="c", client_host="/h", assignment=describing.Assignment(),
        target_assignment=describing.Assignment(topic_partitions=topics), member_type=1, **more,
    )  # fmt: skip


def test_groups_of_both_protocols_are_described_by_their_coordinators() -> None:
    brokers = group_brokers({"new": 2, "old": 3, "none": 3})

    def describe_new(_node: BrokerId, request: describing.ConsumerGroupDescribeRequest) -> Any:
        def row(group_id: str) -> describing.DescribedGroup:
            if group_id != "new":
                return describing.DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=group_id)
            return describing.DescribedGroup(
                error_code=ErrorCode.NONE, group_id="new", group_state="Stable", group_epoch=5, assignment_epoch=5,
                assignor_name="uniform", members=(consumer_member(subscribed_topic_names=("t",)),),
            )  # fmt: skip

        return describing.ConsumerGroupDescribeResponse(groups=tuple(row(one) for one in request.group_ids))

    def describe_old(_node: BrokerId, request: describe_groups.DescribeGroupsRequest) -> Any:
        member = describe_groups.DescribedGroupMember(
            member_id="a", group_instance_id="i", client_id="c", client_host="/h", member_metadata=b"",
            member_assignment=write_assignment(MemberAssignment(partitions=(T0, T1))),
        )  # fmt: skip
        rows = {
            "old": describe_groups.DescribedGroup(
                error_code=ErrorCode.NONE, group_id="old", group_state="Stable", protocol_type="consumer",
                protocol_data="range", members=(member,),
            ),
            "none": describe_groups.DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id="none", group_state="Dead"
            ),
        }  # fmt: skip
        return describe_groups.DescribeGroupsResponse(groups=tuple(rows[one] for one in request.groups))

    brokers.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = describe_new
    brokers.scripts[ApiKey.DESCRIBE_GROUPS] = describe_old
    found = asked(brokers, lambda admin: admin.groups.describe_groups(["new", "old", "none"]))
    assert found["none"] is ErrorCode.GROUP_ID_NOT_FOUND
    assert found["old"] == GroupDescription(
        group_id="old", kind="classic", state="Stable", protocol_type="consumer", assignor="range", coordinator=3,
        members=(
            MemberDescription(member_id="a", instance_id="i", client_id="c", host="/h", assignment=(T0, T1)),
        ),
    )  # fmt: skip
    new = found["new"]
    assert isinstance(new, GroupDescription)
    assert (new.kind, new.coordinator, new.epoch, new.assignment_epoch, new.assignor) == (
        "consumer",
        2,
        5,
        5,
        "uniform",
    )
    assert new.members[0].target == (T0, T1)
    assert (new.members[0].assignment, new.members[0].epoch, new.members[0].kind) == ((), 4, "consumer")
    assert [node for node, _ in asked_of(brokers, describe_groups.DescribeGroupsRequest)] == [3]


def test_a_classic_group_that_an_old_broker_calls_dead_is_not_there() -> None:
    brokers = group_brokers({"g": 1})
    brokers.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _node, _request: describing.ConsumerGroupDescribeResponse(
        groups=(describing.DescribedGroup(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id="g"),)
    )
    brokers.scripts[ApiKey.DESCRIBE_GROUPS] = lambda _node, _request: describe_groups.DescribeGroupsResponse(
        groups=(describe_groups.DescribedGroup(error_code=ErrorCode.NONE, group_id="g", group_state="Dead"),)
    )
    found = asked(brokers, lambda admin: admin.groups.describe_groups(["g"]))
    assert found == {"g": ErrorCode.GROUP_ID_NOT_FOUND}


def test_groups_are_deleted_at_their_coordinators_and_each_has_its_result() -> None:
    brokers = group_brokers({"a": 1, "b": 2})
    codes = {"a": ErrorCode.NONE, "b": ErrorCode.NON_EMPTY_GROUP}
    brokers.scripts[ApiKey.DELETE_GROUPS] = lambda _node, request: DeleteGroupsResponse(
        results=tuple(DeletableGroupResult(group_id=one, error_code=codes[one]) for one in request.groups_names)
    )
    assert asked(brokers, lambda admin: admin.groups.delete_groups(["a", "b"])) == codes
    assert [(node, one.groups_names) for node, one in asked_of(brokers, DeleteGroupsRequest)] == [
        (1, ("a",)),
        (2, ("b",)),
    ]


def fetched(code: ErrorCode = ErrorCode.NONE, *, offset: int = 7) -> offset_fetch.OffsetFetchResponse:
    row = offset_fetch.OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, committed_leader_epoch=3, metadata="m", error_code=ErrorCode.NONE
    )
    none = offset_fetch.OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=-1, metadata="", error_code=ErrorCode.NONE
    )
    topics = (offset_fetch.OffsetFetchResponseTopics(name="t", partitions=(row, none)),)
    group = offset_fetch.OffsetFetchResponseGroup(
        group_id="g", topics=topics if code is ErrorCode.NONE else (), error_code=code
    )
    return offset_fetch.OffsetFetchResponse(groups=(group,))


def test_all_that_a_group_committed_is_told_and_nothing_that_it_did_not() -> None:
    brokers = group_brokers({"g": 2})
    answers = [fetched(ErrorCode.NOT_COORDINATOR), fetched()]
    brokers.scripts[ApiKey.OFFSET_FETCH] = lambda _node, _request: answers.pop(0)
    found = asked(brokers, lambda admin: admin.groups.committed_offsets(["g"]))
    assert found == {"g": {T0: Committed(7, 3, "m")}}


def committed(code: ErrorCode) -> offset_commit.OffsetCommitResponse:
    row = offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return offset_commit.OffsetCommitResponse(
        topics=(offset_commit.OffsetCommitResponseTopic(name="t", partitions=(row,)),)
    )


def test_offsets_are_altered_by_a_commit_of_nobody() -> None:
    brokers = group_brokers({"g": 2})
    answers = [committed(ErrorCode.NOT_COORDINATOR), committed(ErrorCode.NONE)]
    brokers.scripts[ApiKey.OFFSET_COMMIT] = lambda _node, _request: answers.pop(0)
    found = asked(brokers, lambda admin: admin.groups.alter_offsets("g", {T0: Committed(5)}))
    assert found == {T0: ErrorCode.NONE}
    (_, request) = asked_of(brokers, offset_commit.OffsetCommitRequest)[-1]
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    (row,) = request.topics[0].partitions
    assert (row.partition_index, row.committed_offset) == (0, 5)


def test_a_group_with_members_does_not_let_its_offsets_be_altered() -> None:
    brokers = group_brokers({"g": 2})
    brokers.scripts[ApiKey.OFFSET_COMMIT] = lambda _node, _request: committed(ErrorCode.UNKNOWN_MEMBER_ID)
    found = asked(brokers, lambda admin: admin.groups.alter_offsets("g", {T0: Committed(5)}))
    assert found == {T0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_offsets_are_deleted_or_the_refusal_is_that_of_each() -> None:
    brokers = group_brokers({"g": 2})
    row = offset_delete.OffsetDeleteResponsePartition(partition_index=0, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    topic = offset_delete.OffsetDeleteResponseTopic(name="t", partitions=(row,))
    answers = [
        offset_delete.OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=(topic,)),
        offset_delete.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    brokers.scripts[ApiKey.OFFSET_DELETE] = lambda _node, _request: answers.pop(0)

    async def ask(admin: Admin) -> list[dict[TopicPartition, ErrorCode]]:
        return [await admin.groups.delete_offsets("g", [T0]), await admin.groups.delete_offsets("g", [T0, T1])]

    assert asked(brokers, ask) == [
        {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        {T0: ErrorCode.GROUP_ID_NOT_FOUND, T1: ErrorCode.GROUP_ID_NOT_FOUND},
    ]


def test_static_members_are_removed_by_instance() -> None:
    brokers = group_brokers({"g": 2})
    row = MemberResponse(member_id="", group_instance_id="i", error_code=ErrorCode.NONE)
    brokers.scripts[ApiKey.LEAVE_GROUP] = lambda _node, _request: LeaveGroupResponse(
        error_code=ErrorCode.NONE, members=(row,)
    )
    assert asked(brokers, lambda admin: admin.groups.remove_members("g", ["i"])) == {"i": ErrorCode.NONE}
    ((_, request),) = asked_of(brokers, LeaveGroupRequest)
    assert [(member.member_id, member.group_instance_id) for member in request.members] == [("", "i")]


def test_all_members_are_removed_when_none_is_named() -> None:
    brokers = group_brokers({"g": 2})
    brokers.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _node, _request: describing.ConsumerGroupDescribeResponse(
        groups=(describing.DescribedGroup(error_code=ErrorCode.NONE, group_id="g", members=(consumer_member(),)),)
    )
    row = MemberResponse(member_id="m", error_code=ErrorCode.NONE)
    brokers.scripts[ApiKey.LEAVE_GROUP] = lambda _node, _request: LeaveGroupResponse(
        error_code=ErrorCode.NONE, members=(row,)
    )
    assert asked(brokers, lambda admin: admin.groups.remove_members("g")) == {"m": ErrorCode.NONE}


def test_members_of_a_group_that_is_not_there_cannot_be_removed() -> None:
    brokers = group_brokers({"g": 2})
    brokers.scripts[ApiKey.LEAVE_GROUP] = lambda _node, _request: LeaveGroupResponse(
        error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    with pytest.raises(RequestRefused, match="UNKNOWN_MEMBER_ID"):
        asked(brokers, lambda admin: admin.groups.remove_members("g", ["i"]))


def test_coordinators_are_told() -> None:
    brokers = group_brokers({"a": 3, "b": 1})
    assert asked(brokers, lambda admin: admin.groups.find_coordinators(["a", "b"])) == {"a": 3, "b": 1}


def test_a_broker_keeps_what_is_altered_and_forgets_what_is_deleted() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            await admin.create_topics([NewTopic(name="t", partition_count=2)])
            groups = admin.groups
            wanted = {T0: Committed(3, -1, "note"), T1: Committed(0)}
            assert await groups.alter_offsets("g", wanted) == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
            assert await groups.committed_offsets(["g", "h"]) == {"g": wanted, "h": {}}
            assert await groups.list_groups(states=["empty"]) == [GroupListing("g", "classic", "Empty", "", 1)]
            found = await groups.describe_groups(["g", "h"])
            assert found["h"] is ErrorCode.GROUP_ID_NOT_FOUND
            assert isinstance(found["g"], GroupDescription)
            assert (found["g"].state, found["g"].members) == ("Empty", ())
            assert await groups.delete_offsets("g", [T1]) == {T1: ErrorCode.NONE}
            assert await groups.committed_offsets(["g"]) == {"g": {T0: wanted[T0]}}
            assert await groups.remove_members("g") == {}
            assert await groups.delete_groups(["g", "h"]) == {"g": ErrorCode.NONE, "h": ErrorCode.GROUP_ID_NOT_FOUND}
            assert await groups.list_groups() == []

    with BrokerWorld(offsets_topic_replication_factor="1", offsets_topic_num_partitions="3") as world:
        world.tell(story)

"""Every version of every request about groups, asked of a running broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.group_talk import (
    Member,
    commit_request,
    committed,
    described,
    join,
    join_request,
    stable,
    sync,
    wait_for_coordinator,
)
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

CLIENT_MADE_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


def check_join_group(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    unknown = conversation.ask(join_request("unknown", "nobody"), version)
    assert (unknown.error_code, unknown.protocol_name) == (ErrorCode.UNKNOWN_MEMBER_ID, "" if version < 7 else None)
    joined = join(conversation, group, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("conversation-")
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"subscription")]
    assert joined.protocol_type == ("consumer" if version >= 7 else None)


def check_sync_group(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    joined = join(conversation, group)
    member = Member(group, joined.member_id, joined.generation_id)
    synced = sync(conversation, member, {member.member_id: b"all"}, version)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")
    assert (synced.protocol_type, synced.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
    late = sync(conversation, member._replace(generation_id=7), version=version)
    assert (late.error_code, late.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")


def check_heartbeat(conversation: Conversation, version: int, group: str) -> None:
    member = stable(conversation, group)
    assert conversation.ask(member.heartbeat(), version).error_code is ErrorCode.NONE
    assert conversation.ask(member.heartbeat(generation_id=7), version).error_code is ErrorCode.ILLEGAL_GENERATION
    assert conversation.ask(member.heartbeat(member_id="x"), version).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def check_leave_group(conversation: Conversation, version: int, group: str) -> None:
    member = stable(conversation, group)
    if version < 3:
        stranger = conversation.ask(LeaveGroupRequest(group_id=group, member_id="stranger"), version)
        assert stranger.error_code is ErrorCode.UNKNOWN_MEMBER_ID
        left = conversation.ask(LeaveGroupRequest(group_id=group, member_id=member.member_id), version)
        assert left.error_code is ErrorCode.NONE
    else:
        leaving = tuple(MemberIdentity(member_id=one) for one in ("stranger", member.member_id))
        answer = conversation.ask(LeaveGroupRequest(group_id=group, members=leaving), version)
        assert answer.error_code is ErrorCode.NONE
        codes = {one.member_id: one.error_code for one in answer.members}
        assert codes == {"stranger": ErrorCode.UNKNOWN_MEMBER_ID, member.member_id: ErrorCode.NONE}
    assert described(conversation, group).group_state == "Empty"


def check_offset_commit(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    topic_id = topic_id_of(conversation, group)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=42, committed_metadata=None)
    missing = OffsetCommitRequestPartition(partition_index=9, committed_offset=42, committed_metadata=None)
    topic = OffsetCommitRequestTopic(
        name=group if version < 10 else "",
        topic_id=topic_id if version >= 10 else None,
        partitions=(partition, missing),
    )
    answer = conversation.ask(commit_request(group, group, {}, topics=(topic,)), version)
    (answered,) = answer.topics
    assert (answered.name, answered.topic_id) == (topic.name, topic.topic_id)
    codes = {row.partition_index: row.error_code for row in answered.partitions}
    assert codes == {0: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(conversation, group, group) == {0: 42, 1: -1}


def check_offset_fetch(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    topic_id = topic_id_of(conversation, group)
    conversation.ask(commit_request(group, group, {0: 42}), 9)
    by_id = version >= 10
    asked = OffsetFetchRequestTopics(
        name="" if by_id else group, topic_id=topic_id if by_id else None, partition_indexes=(0, 1)
    )
    for topics in [(asked,), None] if version >= 2 else [(asked,)]:
        if version < 8:
            old = conversation.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
            found, code = old.topics, old.error_code
        else:
            one = OffsetFetchRequestGroup(group_id=group, topics=topics)
            (answer,) = conversation.ask(OffsetFetchRequest(groups=(one,)), version).groups
            found, code = answer.topics, answer.error_code
        assert code is ErrorCode.NONE
        assert [(topic.name, topic.topic_id) for topic in found] == [(asked.name, asked.topic_id)]
        rows = {row.partition_index: (row.committed_offset, row.metadata) for row in found[0].partitions}
        assert rows == ({0: (42, "note")} if topics is None else {0: (42, "note"), 1: (-1, "")})


def check_offset_delete(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    topic_id_of(conversation, group)
    conversation.ask(commit_request(group, group, {0: 42}), 9)
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9))
    topics = (OffsetDeleteRequestTopic(name=group, partitions=partitions),)
    answer = conversation.ask(OffsetDeleteRequest(group_id=group, topics=topics), version)
    assert answer.error_code is ErrorCode.NONE
    codes = {row.partition_index: row.error_code for row in answer.topics[0].partitions}
    assert codes == {0: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(conversation, group, group) == {0: -1, 1: -1}


def check_list_groups(conversation: Conversation, version: int, group: str) -> None:
    stable(conversation, group)
    answer = conversation.ask(ListGroupsRequest(), version)
    assert answer.error_code is ErrorCode.NONE
    (listed,) = [one for one in answer.groups if one.group_id == group]
    assert listed.protocol_type == "consumer"
    assert listed.group_state == ("Stable" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")


def check_describe_groups(conversation: Conversation, version: int, group: str) -> None:
    member = stable(conversation, group)
    request = DescribeGroupsRequest(groups=(group, "no-such"), include_authorized_operations=True)
    found, unknown = conversation.ask(request, version).groups
    assert (found.error_code, found.group_state, found.protocol_data) == (ErrorCode.NONE, "Stable", "range")
    (shown,) = found.members
    assert (shown.member_id, shown.client_id) == (member.member_id, "conversation")
    assert shown.client_host == "/127.0.0.1"
    assert (shown.member_metadata, shown.member_assignment) == (b"subscription", b"all")
    assert (found.authorized_operations > 0) is (version >= 3)
    assert unknown.error_code is (ErrorCode.NONE if version < 6 else ErrorCode.GROUP_ID_NOT_FOUND)
    assert (unknown.group_state, unknown.members) == ("Dead", ())


def check_delete_groups(conversation: Conversation, version: int, group: str) -> None:
    stable(conversation, group)
    wait_for_coordinator(conversation, f"{group}-empty")
    topic_id_of(conversation, group)
    conversation.ask(commit_request(f"{group}-empty", group, {0: 42}), 9)
    names = (group, f"{group}-empty", "no-such")
    results = conversation.ask(DeleteGroupsRequest(groups_names=names), version).results
    assert [(row.group_id, row.error_code) for row in results] == [
        (group, ErrorCode.NON_EMPTY_GROUP),
        (f"{group}-empty", ErrorCode.NONE),
        ("no-such", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert committed(conversation, f"{group}-empty", group) == {0: -1, 1: -1}


def consumer_heartbeat(group: str, member_id: str, epoch: int, **changed: Any) -> ConsumerGroupHeartbeatRequest:
    """A member that subscribes to the topic that is called like its group."""
    said: dict[str, Any] = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        said |= {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": (group,), "topic_partitions": ()}
    return ConsumerGroupHeartbeatRequest(**{**said, **changed})


def check_consumer_group_heartbeat(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    topic_id = topic_id_of(conversation, group)
    joined = conversation.ask(consumer_heartbeat(group, CLIENT_MADE_ID if version else "", 0), version)
    assert (joined.error_code, joined.member_epoch > 0) == (ErrorCode.NONE, True)
    assert joined.member_id == CLIENT_MADE_ID if version else joined.member_id
    assert joined.assignment is not None
    assert joined.assignment.topic_partitions == (TopicPartitions(topic_id=topic_id, partitions=(0,)),)
    member_id = joined.member_id or ""
    again = conversation.ask(
        consumer_heartbeat(group, member_id, joined.member_epoch, topic_partitions=joined.assignment.topic_partitions),
        version,
    )
    assert (again.error_code, again.member_epoch, again.assignment) == (ErrorCode.NONE, joined.member_epoch, None)
    left = conversation.ask(consumer_heartbeat(group, member_id, -1), version)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)


def check_consumer_group_describe(conversation: Conversation, version: int, group: str) -> None:
    wait_for_coordinator(conversation, group)
    topic_id_of(conversation, group)
    conversation.ask(consumer_heartbeat(group, CLIENT_MADE_ID, 0), 1)
    request = ConsumerGroupDescribeRequest(group_ids=(group, "no-such", ""), include_authorized_operations=True)
    found, unknown, empty = conversation.ask(request, version).groups
    assert (found.error_code, found.group_state, found.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
    (member,) = found.members
    assert (member.member_id, member.subscribed_topic_names) == (CLIENT_MADE_ID, (group,))
    assert member.client_host == "/127.0.0.1"
    assert [(row.topic_name, row.partitions) for row in member.assignment.topic_partitions] == [(group, (0,))]
    assert member.member_type == (1 if version else -1)
    assert found.authorized_operations > 0
    assert unknown.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert empty.error_code is ErrorCode.INVALID_GROUP_ID


GROUP_CHECKS: Final[dict[ApiKey, Callable[[Conversation, int, str], None]]] = {
    ApiKey.OFFSET_COMMIT: check_offset_commit,
    ApiKey.OFFSET_FETCH: check_offset_fetch,
    ApiKey.JOIN_GROUP: check_join_group,
    ApiKey.HEARTBEAT: check_heartbeat,
    ApiKey.LEAVE_GROUP: check_leave_group,
    ApiKey.SYNC_GROUP: check_sync_group,
    ApiKey.DESCRIBE_GROUPS: check_describe_groups,
    ApiKey.LIST_GROUPS: check_list_groups,
    ApiKey.DELETE_GROUPS: check_delete_groups,
    ApiKey.OFFSET_DELETE: check_offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: check_consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: check_consumer_group_describe,
}

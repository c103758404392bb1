"""What tests say to the coordinator of groups, over a raw conversation: one broker is asked, and coordinates them all."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.broker.conversation import Conversation
from tests.cluster.waiting import eventually
from tidelog.model import ErrorCode
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_NOT_YET: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class Member(NamedTuple):
    """A member of a group in a generation."""

    group_id: str
    member_id: str
    generation_id: int

    def heartbeat(self, **changed: Any) -> HeartbeatRequest:
        """That it is alive."""
        said = {"group_id": self.group_id, "member_id": self.member_id, "generation_id": self.generation_id}
        return HeartbeatRequest(**{**said, **changed})


def wait_for_coordinator(conversation: Conversation, group_id: str) -> None:
    """Have the topic of groups made, and wait until the group's partition of it is loaded."""

    def is_served() -> bool:
        conversation.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)), 4)
        return described(conversation, group_id).error_code not in _NOT_YET

    eventually(is_served, f"{group_id} has a coordinator")


def described(conversation: Conversation, group_id: str, version: int = 6) -> DescribedGroup:
    """What DescribeGroups says."""
    (group,) = conversation.ask(DescribeGroupsRequest(groups=(group_id,)), version).groups
    return group


def join_request(group_id: str, member_id: str = "", **changed: Any) -> JoinGroupRequest:
    """One protocol, and timeouts that no test lives to see."""
    said: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"subscription"),),
    }
    return JoinGroupRequest(**{**said, **changed})


def join(conversation: Conversation, group_id: str, version: int = 9, **changed: Any) -> JoinGroupResponse:
    """Join as a new member, with a second request where the first only gives the member its id."""
    answer = conversation.ask(join_request(group_id, **changed), version)
    if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        return conversation.ask(join_request(group_id, answer.member_id, **changed), version)
    return answer


def sync(
    conversation: Conversation, member: Member, assignments: dict[str, bytes] | None = None, version: int = 5
) -> SyncGroupResponse:
    """SyncGroup, with what the leader assigned."""
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=to, assignment=what) for to, what in (assignments or {}).items()
        ),
    )
    return conversation.ask(request, version)


def stable(conversation: Conversation, group_id: str, **changed: Any) -> Member:
    """A group of one member, which owns everything."""
    wait_for_coordinator(conversation, group_id)
    joined = join(conversation, group_id, **changed)
    assert joined.error_code is ErrorCode.NONE
    member = Member(group_id, joined.member_id, joined.generation_id)
    assert sync(conversation, member, {member.member_id: b"all"}).assignment == b"all"
    return member


def commit_request(group_id: str, topic: str, offsets: dict[int, int], **changed: Any) -> OffsetCommitRequest:
    """Offsets of partitions, by nobody in particular."""
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="note")
        for index, offset in offsets.items()
    )
    said: dict[str, Any] = {
        "group_id": group_id,
        "member_id": "",
        "topics": (OffsetCommitRequestTopic(name=topic, partitions=partitions),),
    }
    return OffsetCommitRequest(**{**said, **changed})


def committed(conversation: Conversation, group_id: str, topic: str, version: int = 9) -> dict[int, int]:
    """The offsets of partitions 0 and 1 of a topic; -1 where there are none."""
    topics = (OffsetFetchRequestTopics(name=topic, partition_indexes=(0, 1)),)
    if version < 8:
        old = conversation.ask(OffsetFetchRequest(group_id=group_id, topics=topics), version)
        return {row.partition_index: row.committed_offset for row in old.topics[0].partitions}
    groups = (OffsetFetchRequestGroup(group_id=group_id, topics=topics),)
    (group,) = conversation.ask(OffsetFetchRequest(groups=groups), version).groups
    assert group.error_code is ErrorCode.NONE
    return {row.partition_index: row.committed_offset for row in group.topics[0].partitions}

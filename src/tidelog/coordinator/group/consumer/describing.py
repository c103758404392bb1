"""ConsumerGroupDescribe."""

from __future__ import annotations

from tidelog.coordinator.group.book import Group, Topics
from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import NOTHING, Member, written
from tidelog.coordinator.group.consumer.target import preferred_assignor
from tidelog.model import ErrorCode
from tidelog.wire.messages.consumer_group_describe import Assignment as AssignmentMessage
from tidelog.wire.messages.consumer_group_describe import DescribedGroup, TopicPartitions
from tidelog.wire.messages.consumer_group_describe import Member as MemberMessage

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group_id: str, group: Group | None, topics: Topics, default_assignor: str) -> DescribedGroup:
    """A group as it is, or that there is none that speaks this protocol."""
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.assignors, default_assignor),
        members=tuple(_member(member, group, topics) for member in group.members.values()),
    )


def _member(member: Member, group: ConsumerGroup, topics: Topics) -> MemberMessage:
    return MemberMessage(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(assignment: Assignment, topics: Topics) -> AssignmentMessage:
    """Topics that are gone have no name to be shown by."""
    return AssignmentMessage(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=view.name, partitions=partitions)
            for topic_id, partitions in written(assignment)
            if (view := topics.by_id(topic_id)) is not None
        )
    )

"""Between what an admin says of groups and what goes over the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.client.admin_group_values import CLASSIC, CONSUMER, GroupDescription, MemberDescription
from tidelog.client.admin_messages import by_topic
from tidelog.client.groups.offset_commits import GROUPS_FROM, Committed
from tidelog.client.groups.subscription_codec import read_assignment
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages import consumer_group_describe, describe_groups
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseTopics,
)

NO_GENERATION: Final = -1
NO_MEMBER: Final = ""
CONSUMER_PROTOCOL: Final = "consumer"

_MEMBER_KINDS: Final = {0: CLASSIC, 1: CONSUMER}


def classic_group(row: describe_groups.DescribedGroup, coordinator: BrokerId) -> GroupDescription:
    """A classic group as its coordinator described it."""
    speaks_consumer = row.protocol_type == CONSUMER_PROTOCOL
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_partitions_in(member.member_assignment) if speaks_consumer else (),
        )
        for member in row.members
    )
    return GroupDescription(
        group_id=row.group_id,
        kind=CLASSIC,
        state=row.group_state,
        protocol_type=row.protocol_type,
        assignor=row.protocol_data,
        coordinator=coordinator,
        members=members,
    )


def consumer_group(row: consumer_group_describe.DescribedGroup, coordinator: BrokerId) -> GroupDescription:
    """A consumer group as its coordinator described it."""
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            rack=member.rack_id,
            epoch=member.member_epoch,
            assignment=_partitions_of(member.assignment),
            target=_partitions_of(member.target_assignment),
            kind=_MEMBER_KINDS.get(member.member_type),
            subscribed_topics=member.subscribed_topic_names,
            subscribed_regex=member.subscribed_topic_regex or None,
        )
        for member in row.members
    )
    return GroupDescription(
        group_id=row.group_id,
        kind=CONSUMER,
        state=row.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=row.assignor_name,
        coordinator=coordinator,
        members=members,
        epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
    )


def fetching_all(group_ids: Iterable[str], *, version: int, is_stable_only: bool) -> list[OffsetFetchRequest]:
    """The requests for all offsets of some groups: one, or of brokers before Kafka 3.0 one per group."""
    if version >= GROUPS_FROM:
        groups = tuple(OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids)
        return [OffsetFetchRequest(groups=groups, require_stable=is_stable_only)]
    return [OffsetFetchRequest(group_id=group_id, topics=None) for group_id in group_ids]


def offsets_in(topics: Iterable[OffsetFetchResponseTopics]) -> dict[TopicPartition, Committed] | ErrorCode:
    """The offsets that an answer tells; the first error instead, if there is one."""
    found = {}
    for topic in topics:
        for row in topic.partitions:
            if row.error_code is not ErrorCode.NONE:
                return row.error_code
            if row.committed_offset >= 0:
                key = TopicPartition(topic.name, row.partition_index)
                found[key] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
    return found


def committing(group_id: str, offsets: Mapping[TopicPartition, Committed]) -> OffsetCommitRequest:
    """A commit by somebody who is no member."""
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=key.index,
                    committed_offset=offsets[key].offset,
                    committed_leader_epoch=offsets[key].leader_epoch,
                    committed_metadata=offsets[key].metadata,
                )
                for key in keys
            ),
        )
        for topic, keys in by_topic(offsets).items()
    )
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=NO_GENERATION, member_id=NO_MEMBER, topics=topics
    )


def deleting(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """A request to forget the offsets of some partitions."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=topic, partitions=tuple(OffsetDeleteRequestPartition(partition_index=key.index) for key in keys)
        )
        for topic, keys in by_topic(partitions).items()
    )
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def _partitions_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a classic member has: nothing while the group rebalances, or if its client wrote what nobody else can read."""
    try:
        return read_assignment(assignment).partitions if assignment else ()
    except MalformedMessage:
        return ()


def _partitions_of(assignment: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )

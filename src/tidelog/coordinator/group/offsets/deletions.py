"""OffsetDelete: forget offsets of topics that nobody in the group reads."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.group.book import Group, GroupBook, GroupKind
from tidelog.coordinator.group.offsets.keys import slot_of, tombstone
from tidelog.coordinator.group.offsets.refusals import refuse_delete
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.machine import Command, CoordinatorRecord, Decision, Reply
from tidelog.model import ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def decide_delete(book: GroupBook, table: OffsetTable, command: Command) -> Decision:
    """All that may be deleted; an offset that was never committed is deleted already."""
    request = asked(command, OffsetDeleteRequest)
    group = book.groups.get(request.group_id)
    if group is None:
        return _refused(command, ErrorCode.GROUP_ID_NOT_FOUND)
    if group.kind is GroupKind.CLASSIC and not group.is_empty and group.protocol_type != _CONSUMER_PROTOCOL_TYPE:
        return _refused(command, ErrorCode.NON_EMPTY_GROUP)
    records: list[CoordinatorRecord] = []
    topics = tuple(_delete_topic(group, table, topic, records) for topic in request.topics)
    response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
    return Decision(replies=(Reply(command.token, response),), records=tuple(records), may_be_cut=True)


def _refused(command: Command, code: ErrorCode) -> Decision:
    return Decision(replies=(Reply(command.token, refuse_delete(command, code)),), is_told_at_once=True)


def _delete_topic(
    group: Group, table: OffsetTable, topic: OffsetDeleteRequestTopic, records: list[CoordinatorRecord]
) -> OffsetDeleteResponseTopic:
    is_subscribed = group.is_subscribed_to(topic.name)
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
    values = table.values(group.group_id)
    for partition in () if is_subscribed else topic.partitions:
        slot = slot_of(topic.name, partition.partition_index)
        if slot in values or table.is_pending(group.group_id, slot):
            records.append(tombstone(group.group_id.encode(), slot))
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ),
    )

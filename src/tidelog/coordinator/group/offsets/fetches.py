"""OffsetFetch: what was committed. Answers wait until what they tell is committed itself."""

from __future__ import annotations

from uuid import UUID

from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.offsets.keys import read_slot, slot_of
from tidelog.coordinator.group.offsets.refusals import no_offset, refused_group
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.group.records import CommittedOffset, read_committed_offset
from tidelog.coordinator.machine import MalformedRecord
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def read_or_none(value: bytes) -> CommittedOffset | None:
    """A value, unless only a later release can read it."""
    try:
        return read_committed_offset(value)
    except MalformedRecord:
        return None


class OffsetReader:
    """Reads for one request."""

    def __init__(self, book: GroupBook, table: OffsetTable, *, requires_stable: bool) -> None:
        self._book = book
        self._table = table
        self._requires_stable = requires_stable

    def read(self, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """One group; of a group that does not exist, nothing was committed."""
        group = self._book.groups.get(request.group_id)
        if group is not None:
            try:
                group.check_fetch(member_id=request.member_id, epoch=request.member_epoch)
            except ApiError as refusal:
                return refused_group(request, refusal.code)
        if request.topics is None:
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=self._all(request.group_id))
        topics = tuple(self._topic(request.group_id, topic) for topic in request.topics)
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)

    def _topic(self, group_id: str, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        values = self._table.values(group_id)
        partitions = []
        for index in topic.partition_indexes:
            slot = slot_of(topic.name, index)
            partitions.append(self._partition(group_id, slot, values.get(slot), (index, topic.topic_id)))
        return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))

    def _all(self, group_id: str) -> tuple[OffsetFetchResponseTopics, ...]:
        """Whatever was committed, and only that: a first commit that awaits its marker is not mentioned."""
        topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for slot, value in self._table.values(group_id).items():
            topic, index = read_slot(slot)
            topics.setdefault(topic, []).append(self._partition(group_id, slot, value, (index, None)))
        return tuple(
            OffsetFetchResponseTopics(name=topic, partitions=tuple(partitions)) for topic, partitions in topics.items()
        )

    def _partition(
        self, group_id: str, slot: bytes, value: bytes | None, asked: tuple[int, UUID | None]
    ) -> OffsetFetchResponsePartitions:
        index, topic_id = asked
        if self._requires_stable and self._table.is_pending(group_id, slot):
            return no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = None if value is None else read_or_none(value)
        if committed is None or _is_of_another_topic(committed, topic_id):
            return no_offset(index)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=ErrorCode.NONE,
        )


def _is_of_another_topic(committed: CommittedOffset, topic_id: UUID | None) -> bool:
    """Whether it was committed for a topic of the same name that was deleted since."""
    return topic_id is not None and committed.topic_id is not None and committed.topic_id != topic_id

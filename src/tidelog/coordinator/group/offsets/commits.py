"""OffsetCommit: who may commit, and what is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.coordinator.group.book import Group, GroupBook, Topics
from tidelog.coordinator.group.offsets.keys import STRING_BYTES_MAX
from tidelog.coordinator.group.records import CommittedOffset, OffsetKey, offset_record
from tidelog.coordinator.machine import Command, CoordinatorRecord, Moment
from tidelog.model import NO_TIMESTAMP, ApiError, ErrorCode, TimestampMs, TopicId
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_DEFAULT_RETENTION: Final = -1
_TIMESTAMP_MAX: Final = 2**63 - 1
_MEMBER_EPOCHS_SINCE: Final = 9  # the version that knows members of KIP-848, and the errors that they are told


def check_commit(book: GroupBook, command: Command, request: OffsetCommitRequest) -> Group | None:
    """Whether the offsets are accepted; the group, if it exists already. Raises ApiError."""
    epoch, version = request.generation_id_or_member_epoch, command.client.version
    if len(request.group_id.encode()) > STRING_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = book.groups.get(request.group_id)
    if group is None:
        if epoch < 0:  # Somebody who assigns partitions by himself: the commit makes the group.
            return None
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND if version >= _MEMBER_EPOCHS_SINCE else ErrorCode.ILLEGAL_GENERATION
        )
    try:
        group.check_commit(
            member_id=request.member_id, instance_id=request.group_instance_id, epoch=epoch, is_transactional=False
        )
    except ApiError as refusal:
        if refusal.code is ErrorCode.STALE_MEMBER_EPOCH and version < _MEMBER_EPOCHS_SINCE:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION) from refusal
        raise
    return group


class CommitWriter:
    """The records of one request, and its answer. The offsets are not compared with any log: a client may commit what it likes.

    Each tells of which topic it is, also where the client has only said its name: offsets of a topic must not outlive it, and those of
    another that has its name by now must not go with it.
    """

    def __init__(self, request: OffsetCommitRequest, topics: Topics, *, metadata_max: int, now: Moment) -> None:
        self._request = request
        self._topics = topics
        self._metadata_max = metadata_max
        self._now = now
        self._expire_ms = _expiry(request.retention_time_ms, now)
        self.records: list[CoordinatorRecord] = []

    def write(self) -> OffsetCommitResponse:
        """All partitions; those whose metadata is too long are refused alone."""
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(self._write_each(topic)),
                )
                for topic in self._request.topics
            )
        )

    def _write_each(self, topic: OffsetCommitRequestTopic) -> Iterator[OffsetCommitResponsePartition]:
        topic_id = topic.topic_id or self._topics.id_of(topic.name)
        return (self._write(topic.name, topic_id, partition) for partition in topic.partitions)

    def _write(
        self, topic: str, topic_id: TopicId | None, partition: OffsetCommitRequestPartition
    ) -> OffsetCommitResponsePartition:
        metadata = partition.committed_metadata or ""
        error = ErrorCode.NONE
        if is_too_long(metadata, self._metadata_max):
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            key = OffsetKey(self._request.group_id, topic, partition.partition_index)
            self.records.append(offset_record(key, self._value(partition, metadata, topic_id)))
        return OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)

    def _value(
        self, partition: OffsetCommitRequestPartition, metadata: str, topic_id: TopicId | None
    ) -> CommittedOffset:
        return CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            metadata,
            self._now.wall_ms,
            self._expire_ms,
            topic_id,
        )


def is_too_long(metadata: str, length_max: int) -> bool:
    """Kafka counts as Java does, in UTF-16; and what has no place in a record is too long in any case."""
    if metadata.isascii():
        return len(metadata) > min(length_max, STRING_BYTES_MAX)
    return len(metadata.encode("utf-16-le")) // 2 > length_max or len(metadata.encode()) > STRING_BYTES_MAX


def _expiry(retention_ms: int, now: Moment) -> TimestampMs:
    """Until when a client of version 2 to 4 wanted its offsets kept."""
    if retention_ms == _DEFAULT_RETENTION:
        return NO_TIMESTAMP
    return max(0, min(now.wall_ms + retention_ms, _TIMESTAMP_MAX))

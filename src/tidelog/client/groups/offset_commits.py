"""What is said to a coordinator about offsets, what its answers mean, and when to commit without being asked. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tidelog.client.fetched import ConsumedRecord
from tidelog.client.groups.classic_membership import COORDINATOR_ELSEWHERE
from tidelog.client.groups.membership import Identity
from tidelog.model import NO_LEADER_EPOCH, ErrorCode, LeaderEpoch, Offset, TopicPartition
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NAMES_UP_TO: Final = 9
"""The newest version of both APIs in which topics go by their names."""
GROUPS_FROM: Final = 8
"""The version of OffsetFetch from which on it names its groups in a list."""


class Committed(NamedTuple):
    """The next offset to read, the leader epoch of the record before it (KIP-320), and a note of whoever committed."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""


Offsets: TypeAlias = Mapping[TopicPartition, Committed]


def offsets_after(records: Iterable[ConsumedRecord]) -> dict[TopicPartition, Committed]:
    """What to commit when these were processed: of each partition the offset after its last record."""
    return {record.topic_partition: Committed(record.offset + 1, record.leader_epoch) for record in records}


class CommitVerdict(enum.Enum):
    """What becomes of a partition's commit."""

    DONE = enum.auto()
    RETRY = enum.auto()
    RETRY_ELSEWHERE = enum.auto()
    RETRY_IN_NEXT_EPOCH = enum.auto()
    FAILED = enum.auto()


CONCERNS_THE_MEMBER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
"""Refusals that say more about the member than about the offset: it commits no more before it has joined again."""


def judge_commit(code: ErrorCode) -> CommitVerdict:
    """What an answer means."""
    if code is ErrorCode.NONE:
        return CommitVerdict.DONE
    if code in COORDINATOR_ELSEWHERE or code is ErrorCode.REQUEST_TIMED_OUT:
        return CommitVerdict.RETRY_ELSEWHERE
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return CommitVerdict.RETRY_IN_NEXT_EPOCH
    return CommitVerdict.RETRY if code.is_retriable else CommitVerdict.FAILED


def commit_request(group_id: str, identity: Identity, offsets: Offsets) -> OffsetCommitRequest:
    """Everything in one request, which is written in one batch."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic_partition, committed in offsets.items():
        topics.setdefault(topic_partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=topic_partition.index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id if identity.member_id else None,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
    )


def read_commit(response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """What became of each partition."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch_request(
    group_id: str, identity: Identity, wanted: Iterable[TopicPartition], *, version: int
) -> OffsetFetchRequest:
    """What was committed, and not before transactions that commit offsets are decided (version 7).

    Whatever records the consumer wants to see: another member may have ended a transaction whose marker is still on its way, and whoever went
    on from what was committed before would do its work a second time.
    """
    indexes: dict[str, list[int]] = {}
    for topic_partition in wanted:
        indexes.setdefault(topic_partition.topic, []).append(topic_partition.index)
    topics = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=tuple(each)) for name, each in indexes.items())
    is_stable = version >= 7
    if version < GROUPS_FROM:
        return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=is_stable)
    group = OffsetFetchRequestGroup(
        group_id=group_id, member_id=identity.member_id or None, member_epoch=identity.epoch, topics=topics
    )
    return OffsetFetchRequest(groups=(group,), require_stable=is_stable)


def read_fetch(response: OffsetFetchResponse) -> dict[TopicPartition, Committed | ErrorCode | None] | ErrorCode:
    """What was committed for each partition, None where nothing was, or why nobody can say yet; or why for all of them."""
    topics, code = response.topics, response.error_code
    for group in response.groups:
        topics, code = group.topics, group.error_code
    if code is not ErrorCode.NONE:
        return code
    found: dict[TopicPartition, Committed | ErrorCode | None] = {}
    for topic in topics:
        for row in topic.partitions:
            committed = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
            is_there = row.committed_offset >= 0
            found[TopicPartition(topic.name, row.partition_index)] = (
                row.error_code if row.error_code is not ErrorCode.NONE else (committed if is_there else None)
            )
    return found


class AutoCommit:
    """Every auto.commit.interval.ms what changed since; nothing is committed twice."""

    def __init__(self, *, is_enabled: bool, interval_ms: float) -> None:
        self.is_enabled = is_enabled
        self._interval_ms = interval_ms
        self._due_ms: float | None = None
        self._known: dict[TopicPartition, Committed] = {}

    @property
    def due_ms(self) -> float | None:
        """When the next commit is due; None when there is none to come."""
        return self._due_ms if self.is_enabled else None

    def is_due(self, now_ms: float) -> bool:
        """Whether to commit now; the first time is one interval after the first question."""
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        return self.is_enabled and now_ms >= self._due_ms

    def on_begun(self, now_ms: float) -> None:
        """A commit is on its way; the next is due an interval later, whatever becomes of this one."""
        self._due_ms = now_ms + self._interval_ms

    def news(self, positions: Offsets) -> dict[TopicPartition, Committed]:
        """Those that are not known to be committed."""
        return {key: each for key, each in positions.items() if self._known.get(key) != each}

    def on_known(self, offsets: Offsets) -> None:
        """These are committed: by us, or found to be."""
        self._known.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Somebody else commits for these from now on."""
        for partition in partitions:
            self._known.pop(partition, None)

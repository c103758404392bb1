"""TxnOffsetCommit: offsets that count when a transaction commits (KIP-98), from whoever still owns what it has consumed (KIP-447).

Whether the transaction is open, and this partition a part of it, was found out before the machine is asked.
"""

from __future__ import annotations

from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.offsets.commits import is_too_long
from tidelog.coordinator.group.offsets.keys import STRING_BYTES_MAX
from tidelog.coordinator.group.offsets.refusals import refuse_transactional_commit
from tidelog.coordinator.group.records import CommittedOffset, OffsetKey, offset_record
from tidelog.coordinator.machine import Command, CoordinatorRecord, Decision, Moment, Reply
from tidelog.model import NO_TIMESTAMP, ApiError, ErrorCode, ProducerIdentity, TopicId
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def decide_transactional_commit(book: GroupBook, command: Command, now: Moment, *, metadata_max: int) -> Decision:
    """All partitions, as records of the producer's transaction; those whose metadata is too long are refused alone."""
    request = asked(command, TxnOffsetCommitRequest)
    try:
        _check(book, request)
    except ApiError as refusal:
        answer = refuse_transactional_commit(command, refusal.code)
        return Decision(replies=(Reply(command.token, answer),), is_told_at_once=True)
    records: list[CoordinatorRecord] = []
    topics = []
    for topic in request.topics:
        results = []
        topic_id = book.topics.id_of(topic.name)
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if is_too_long(partition.committed_metadata or "", metadata_max):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetKey(request.group_id, topic.name, partition.partition_index)
                records.append(offset_record(key, _value(partition, topic_id, now)))
            results.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=tuple(results)))
    return Decision(
        replies=(Reply(command.token, TxnOffsetCommitResponse(topics=tuple(topics))),),
        records=tuple(records),
        producer=ProducerIdentity(request.producer_id, request.producer_epoch),
    )


def _check(book: GroupBook, request: TxnOffsetCommitRequest) -> None:
    """Whether the offsets are accepted. Raises ApiError.

    A member that lost its partitions in a rebalance has another generation, or none; what it consumed, somebody else consumes again. Clients
    older than version 3 say nothing of the kind and are believed.
    """
    if request.producer_id < 0:  # It would be written outside of any transaction.
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch < 0:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if not request.group_id or len(request.group_id.encode()) > STRING_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = book.groups.get(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return  # Somebody who assigns partitions by himself: the commit makes the group.
    try:
        group.check_commit(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id,
            is_transactional=True,
        )
    except ApiError as refusal:
        if refusal.code is ErrorCode.STALE_MEMBER_EPOCH:  # Producers do not know member epochs.
            raise ApiError(ErrorCode.ILLEGAL_GENERATION) from refusal
        raise


def _value(partition: TxnOffsetCommitRequestPartition, topic_id: TopicId | None, now: Moment) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now.wall_ms,
        NO_TIMESTAMP,
        topic_id,
    )

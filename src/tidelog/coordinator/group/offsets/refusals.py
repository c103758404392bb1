"""How the requests about offsets are refused."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.group.log_errors import coordinator_error
from tidelog.coordinator.machine import Command
from tidelog.model import ErrorCode
from tidelog.wire.definition import Response
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_COMMIT: Final = -1

_LOADING_SINCE: Final = 2  # Producers before that give up on COORDINATOR_LOAD_IN_PROGRESS.
_ABORTABLE_SINCE: Final = 4
_CONCURRENT_SINCE: Final = 5


def refuse_commit(command: Command, code: ErrorCode) -> Response:
    """OffsetCommit, by what went wrong with the log or by what the group said."""
    request = asked(command, OffsetCommitRequest)
    error = coordinator_error(code, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    topics = tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetCommitResponse(topics=topics)


def refuse_transactional_commit(command: Command, code: ErrorCode) -> Response:
    """TxnOffsetCommit, by what the log, the group or the coordinator of the transaction said."""
    request = asked(command, TxnOffsetCommitRequest)
    error = transactional_error(code, command.client.version)
    topics = tuple(
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return TxnOffsetCommitResponse(topics=topics)


def transactional_error(code: ErrorCode, version: int) -> ErrorCode:
    """The same in words that a producer knows who asks in this version: one that it does not know ends its work for good."""
    error = coordinator_error(code, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    is_busy = error is ErrorCode.CONCURRENT_TRANSACTIONS and version < _CONCURRENT_SINCE
    if is_busy or error is ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # It is asked again, and the same coordinator.
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def refuse_fetch(command: Command, code: ErrorCode) -> Response:
    """OffsetFetch, for all its groups."""
    request = asked(command, OffsetFetchRequest)
    error = coordinator_error(code)
    return OffsetFetchResponse(groups=tuple(refused_group(group, error) for group in request.groups))


def refused_group(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """One group of an OffsetFetch, as a whole."""
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)


def no_offset(partition_index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """Nothing was committed, or nothing can be said."""
    return OffsetFetchResponsePartitions(
        partition_index=partition_index, committed_offset=NO_COMMIT, metadata="", error_code=code
    )


def refuse_delete(_: Command, code: ErrorCode) -> Response:
    """OffsetDelete, as a whole."""
    return OffsetDeleteResponse(error_code=coordinator_error(code))

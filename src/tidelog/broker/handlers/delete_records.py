"""DeleteRecords, versions 0 to 2.

Behaviour: the log of each partition begins at the offset asked for (-1: at the high watermark), for readers at once; the segments below
it go with the next retention. Answered when the new beginning is on disk, so that no crash brings the records back. An offset below the
beginning changes nothing and succeeds.

OFFSET_OUT_OF_RANGE above the high watermark or below -1, POLICY_VIOLATION where cleanup.policy has no `delete`, INVALID_REQUEST for a
partition named twice, KAFKA_STORAGE_ERROR where the disk refused.

v0: KIP-107.  v1: throttling moves to the client (KIP-219).  v2: flexible.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from tidelog.broker.node import Node
from tidelog.model import NO_OFFSET, ApiError, ErrorCode, Offset, TopicPartition
from tidelog.partition import Partition, delete_records
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.server import RequestContext
from tidelog.storage import LogDirectory
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

API = ApiKey.DELETE_RECORDS


@dataclass(slots=True)
class _Deletion:
    """One partition: what was asked, and what became of it."""

    key: TopicPartition
    low_watermark: Offset = NO_OFFSET
    error: ErrorCode = ErrorCode.NONE
    directory: LogDirectory | None = None


async def handle(node: Node, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete in every partition by itself, then make all of it durable at once."""
    asked = [
        [(TopicPartition(topic.name, row.partition_index), row.offset) for row in topic.partitions]
        for topic in request.topics
    ]
    counts = Counter(key for rows in asked for key, _ in rows)
    topics = [[_delete(node, key, offset, is_twice=counts[key] > 1) for key, offset in rows] for rows in asked]
    await _make_durable(node, [deletion for rows in topics for deletion in rows])
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(name=topic.name, partitions=tuple(_result(deletion) for deletion in rows))
            for topic, rows in zip(request.topics, topics, strict=True)
        )
    )


def _delete(node: Node, key: TopicPartition, offset: Offset, *, is_twice: bool) -> _Deletion:
    if is_twice:
        return _Deletion(key, error=ErrorCode.INVALID_REQUEST)
    try:
        replica = node.replicas.partition(key)
        directory = _directory_of(node, replica)
        try:
            return _Deletion(key, delete_records(replica, offset), directory=directory)
        except DiskFull as full:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, full.reason) from full
        except StorageFailure as failure:
            node.replicas.on_directory_failed(directory, failure)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
    except ApiError as error:
        return _Deletion(key, error=error.code)


def _directory_of(node: Node, replica: Partition) -> LogDirectory:
    for directory in node.replicas.directories:
        if directory.logs.get(replica.topic_partition) is replica.log:
            return directory
    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


async def _make_durable(node: Node, deletions: list[_Deletion]) -> None:
    paths = {deletion.directory.path: deletion.directory for deletion in deletions if deletion.directory is not None}
    written = await asyncio.gather(*(node.replicas.checkpoint(directory) for directory in paths.values()))
    failed = {path for path, is_written in zip(paths, written, strict=True) if not is_written}
    for deletion in deletions:
        if deletion.directory is not None and deletion.directory.path in failed:
            deletion.low_watermark, deletion.error = NO_OFFSET, ErrorCode.KAFKA_STORAGE_ERROR


def _result(deletion: _Deletion) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=deletion.key.index, low_watermark=deletion.low_watermark, error_code=deletion.error
    )

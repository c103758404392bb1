"""DeleteRecords, versions 0 to 2.

Behaviour: the log of each partition begins at the offset asked for (-1: at the high watermark), for readers at once; the segments below
it go with the next retention. Answered when the new beginning is on disk, so that no crash brings the records back, and every live replica
begins there too, so that no other leader brings them back. An offset below the beginning changes nothing and succeeds.

OFFSET_OUT_OF_RANGE above the high watermark or below -1, POLICY_VIOLATION where cleanup.policy has no `delete`, INVALID_REQUEST for a
partition named twice, KAFKA_STORAGE_ERROR where the disk refused, REQUEST_TIMED_OUT where a replica did not follow in time.

v0: KIP-107.  v1: throttling moves to the client (KIP-219).  v2: flexible.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tidelog.broker.handlers.hosting import replica_of
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
_LOOK_MS: Final = 500.0


@dataclass(slots=True)
class _Deletion:
    """One partition: what was asked, and what became of it."""

    key: TopicPartition
    low_watermark: Offset = NO_OFFSET
    error: ErrorCode = ErrorCode.NONE
    directory: LogDirectory | None = None
    replica: Partition | None = None  # Set where records were deleted that other replicas may still have.
    reign: int = 0

    def is_everywhere(self) -> bool:
        """Whether nobody need wait for this partition; a lost leadership ends the wait as well."""
        if self.replica is None or self.error is not ErrorCode.NONE:
            return True
        try:
            self.replica.check_reign(self.reign)
        except ApiError as error:
            self.low_watermark, self.error = NO_OFFSET, error.code
            return True
        if self.replica.low_watermark < self.low_watermark:
            return False
        self.low_watermark = self.replica.low_watermark
        return True


async def handle(node: Node, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete in every partition by itself, then make all of it durable at once."""
    asked = [
        [(TopicPartition(topic.name, row.partition_index), row.offset) for row in topic.partitions]
        for topic in request.topics
    ]
    counts = Counter(key for rows in asked for key, _ in rows)
    topics = [[_delete(node, key, offset, is_twice=counts[key] > 1) for key, offset in rows] for rows in asked]
    deletions = [deletion for rows in topics for deletion in rows]
    await _make_durable(node, deletions)
    await _until_everywhere(node, deletions, request.timeout_ms)
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
        replica = replica_of(node, key)
        directory = _directory_of(node, replica)
        try:
            low_watermark = delete_records(replica, offset)
            node.replicas.follower_waiters.wake(key)  # Followers hear of it at once.
            return _Deletion(key, low_watermark, directory=directory, replica=replica, reign=replica.reign)
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


async def _until_everywhere(node: Node, deletions: list[_Deletion], timeout_ms: int) -> None:
    clock = node.runtime.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    waiting = [deletion for deletion in deletions if not deletion.is_everywhere()]
    with node.replicas.deletion_waiters.parked([deletion.key for deletion in waiting]) as waiter:
        while waiting := [deletion for deletion in waiting if not deletion.is_everywhere()]:
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                for deletion in waiting:
                    deletion.low_watermark, deletion.error = NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT
                return
            # A replica that dies is no longer waited for, and nobody says so here: look again from time to time.
            await waiter.woken(timeout_s=min(left_ms, _LOOK_MS) / 1000)


def _result(deletion: _Deletion) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=deletion.key.index, low_watermark=deletion.low_watermark, error_code=deletion.error
    )

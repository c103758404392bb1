"""DescribeLogDirs, versions 1 to 5.

Behaviour: every log directory of this broker with the logs that were asked for (null: all), their sizes, and the size and free space of the
file system. A directory that failed, at the start or since, is answered with KAFKA_STORAGE_ERROR and nothing else. A partition that is not
here is left out. Logs do not move between directories, so none is a future one and none is cordoned.

v1: throttling moves to the client (KIP-219).  v2: flexible.  v3: top-level error.  v4: total and usable bytes (KIP-827).
v5: cordoned directories (KIP-1066).
"""

from __future__ import annotations

import asyncio

from tidelog.broker.node import Node
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Disk, StorageFailure
from tidelog.server import RequestContext
from tidelog.storage import LogDirectory
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API = ApiKey.DESCRIBE_LOG_DIRS


async def handle(node: Node, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Look at all directories side by side; a file system that hangs holds up nobody else."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    opened = {directory.path: directory for directory in node.replicas.directories}
    results = await asyncio.gather(*(_describe(node, path, opened.get(path), wanted) for path in node.config.log_dirs))
    return DescribeLogDirsResponse(results=tuple(results))


async def _describe(
    node: Node, path: str, directory: LogDirectory | None, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    offline = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
    if directory is None or directory.failure is not None:
        return offline
    disk = node.runtime.disk
    try:
        total, usable = await asyncio.get_running_loop().run_in_executor(disk.threads(path), _space, disk, path)
    except StorageFailure:
        return offline
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=_topics(node, directory, wanted),
        total_bytes=total,
        usable_bytes=usable,
    )


def _space(disk: Disk, path: str) -> tuple[int, int]:
    return disk.total_bytes(path), disk.usable_bytes(path)


def _topics(
    node: Node, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> tuple[DescribeLogDirsTopic, ...]:
    high_watermarks = {
        partition.topic_partition: partition.high_watermark
        for partition, home in node.replicas.partitions()
        if home is directory
    }
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for key, log in sorted(directory.logs.items()):
        if wanted is None or key in wanted:
            partition = DescribeLogDirsPartition(
                partition_index=key.index,
                partition_size=log.size_bytes,
                offset_lag=max(0, high_watermarks.get(key, 0) - log.log_end_offset),
                is_future_key=False,
            )
            by_topic.setdefault(key.topic, []).append(partition)
    return tuple(DescribeLogDirsTopic(name=name, partitions=tuple(rows)) for name, rows in by_topic.items())

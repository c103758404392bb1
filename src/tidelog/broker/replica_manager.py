"""The replicas this broker hosts: their directories, their partitions, and whoever waits on them.

Owns the log directories and performs what partitions ask for (wake waiters, flush). A log directory that fails takes its partitions
offline and nothing else; the broker goes on with the others and stops only when none is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tidelog.broker.checkpointer import DirectoryCheckpointer
from tidelog.broker.flusher import DirectoryFlusher, perform_all
from tidelog.broker.log_directories import open_directories
from tidelog.broker.log_placement import LogPlacement
from tidelog.broker.validation import BatchValidation, writable
from tidelog.broker.waiters import Waiters
from tidelog.config import BrokerConfig, LogConfig
from tidelog.model import (
    Acks,
    ApiError,
    ErrorCode,
    Offset,
    TopicId,
    TopicPartition,
)
from tidelog.partition import (
    FlushWanted,
    HighWatermarkAdvanced,
    Leadership,
    LeadershipChanged,
    LogEndAdvanced,
    Partition,
    PartitionEvent,
)
from tidelog.records import Validated
from tidelog.runtime import DiskFull, Runtime, StorageFailure
from tidelog.runtime.disk import Buffer
from tidelog.runtime.logs import fields
from tidelog.storage import Appended, LogDirectory

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Hosted:
    """A replica and the directory that holds it."""

    partition: Partition
    directory: LogDirectory
    flusher: DirectoryFlusher


class _Wanted(NamedTuple):
    """What `lead` was asked for."""

    topic_id: TopicId
    config: LogConfig
    leadership: Leadership


class ReplicaManager:
    """Everything this broker stores. Lives from after recovery until every log is closed."""

    def __init__(self, config: BrokerConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._directories: list[LogDirectory] = []
        self.placement = LogPlacement(config, runtime, self._directories)
        self._failed: list[LogDirectory] = []
        self._flushers: dict[str, DirectoryFlusher] = {}
        self._checkpointers: dict[str, DirectoryCheckpointer] = {}
        self._hosted: dict[TopicPartition, _Hosted] = {}
        self._unavailable: dict[TopicPartition, _Wanted] = {}  # Ours, but their logs cannot be had at present.
        self._is_full = False  # Said once; said again when an append has worked in between.
        self.produce_waiters: Waiters[TopicPartition] = Waiters()
        self.fetch_waiters: Waiters[TopicPartition] = Waiters()
        self.all_directories_failed = asyncio.Event()
        self.validation = BatchValidation(runtime, self.partition)
        self._bytes_in = runtime.metrics.counter("kafka_server_brokertopicmetrics_bytesin_total")

    @asynccontextmanager
    async def running(self, cluster_id: str) -> AsyncIterator[None]:
        """Open and recover the log directories; flush on demand until the block is left; then close everything cleanly."""
        self._directories += await open_directories(self._config, self._runtime, cluster_id)
        try:
            async with AsyncExitStack() as flushers:
                for directory in self._directories:
                    self._checkpointers[directory.path] = DirectoryCheckpointer(
                        directory, self._runtime.disk, self._high_watermarks
                    )
                    self._flushers[directory.path] = self._flusher(directory)
                    await flushers.enter_async_context(self._flushers[directory.path].running())
                yield
        finally:
            await self._close()

    def _flusher(self, directory: LogDirectory) -> DirectoryFlusher:
        return DirectoryFlusher(
            self._runtime.disk.threads(directory.path),
            on_flushed=self._perform_for,
            on_failed=partial(self.on_directory_failed, directory),
        )

    async def _close(self) -> None:
        for directory in self._directories:
            if directory in self._failed:
                directory.release()
                continue
            try:
                await self._close_cleanly(directory)
            except StorageFailure as failure:
                directory.release()
                logger.error("no clean shutdown", extra=fields(directory=directory.path, reason=failure))

    async def _close_cleanly(self, directory: LogDirectory) -> None:
        loop, threads = asyncio.get_running_loop(), self._runtime.disk.threads(directory.path)
        flushes = await loop.run_in_executor(threads, directory.start_closing)
        await perform_all(threads, flushes.values())
        await loop.run_in_executor(threads, directory.finish_closing, flushes, self._high_watermarks(directory))

    # Looking.

    @property
    def directories(self) -> list[LogDirectory]:
        """All log directories, the failed ones included."""
        return self._directories

    def partitions(self) -> Iterator[tuple[Partition, LogDirectory]]:
        """Every replica on a directory that works."""
        for hosted in list(self._hosted.values()):
            if hosted.directory.failure is None:
                yield hosted.partition, hosted.directory

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The replica. Raises ApiError where it is not here."""
        return self._require(topic_partition).partition

    def _require(self, topic_partition: TopicPartition) -> _Hosted:
        hosted = self._hosted.get(topic_partition)
        if hosted is not None:
            return hosted
        if topic_partition in self._unavailable:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log of this replica cannot be had at present")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def is_hosting(self, partition: Partition) -> bool:
        """Whether this very replica is still here; its topic may have been deleted meanwhile."""
        hosted = self._hosted.get(partition.topic_partition)
        return hosted is not None and hosted.partition is partition

    # Writing.

    def append(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        acks: Acks,
        produce_version: int,
        validated: Validated | None = None,
    ) -> tuple[Partition, Appended]:
        """Append a produced batch to the replica that leads. Raises ApiError."""
        hosted = self._require(topic_partition)
        try:
            appended, events = hosted.partition.append_as_leader(
                writable(batch),
                acks=acks,
                produce_version=produce_version,
                now_ms=self._runtime.clock.wall_ms(),
                validated=validated,
            )
        except StorageFailure as failure:
            raise self.storage_error(topic_partition, failure) from failure
        self._is_full = False
        self._bytes_in.add(len(batch))
        self._perform(hosted, events)
        return hosted.partition, appended

    def want_flush(self, partition: Partition) -> None:
        """Flush the partition soon, because its time has come."""
        hosted = self._hosted.get(partition.topic_partition)
        if hosted is not None:
            hosted.flusher.want(partition)

    async def checkpoint(self, directory: LogDirectory) -> bool:
        """Remember for the next start where each log begins and how far it is flushed and committed; whether that could be written."""
        if directory.failure is not None:
            return False
        try:
            return await self._checkpointers[directory.path].write()
        except StorageFailure as failure:
            self.on_directory_failed(directory, failure)
            return False

    # What the controller tells.

    def lead(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig, leadership: Leadership
    ) -> None:
        """Host the replica, if it is not hosted yet, and lead it; without its log it answers with storage errors until that can be had."""
        hosted = self._hosted.get(topic_partition)
        if hosted is not None and hosted.directory.failure is not None:
            return
        try:
            if hosted is None:
                hosted = self._host(topic_partition, topic_id, config, is_new=leadership.leader_epoch == 0)
            hosted.partition.reconfigure(config)
            self._perform(hosted, hosted.partition.become_leader(leadership))
        except StorageFailure as failure:
            if hosted is None and topic_partition not in self._unavailable:
                logger.error("replica unavailable", extra=fields(partition=topic_partition, reason=failure))
                self._unavailable[topic_partition] = _Wanted(topic_id, config, leadership)
            self._take_failed_offline()
        else:
            self._unavailable.pop(topic_partition, None)

    def retry_unavailable(self) -> None:
        """Try again to have the logs that could not be had; space may have returned."""
        for topic_partition, wanted in list(self._unavailable.items()):
            self.lead(topic_partition, wanted.topic_id, wanted.config, wanted.leadership)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop hosting a replica of a deleted topic and put its files out of sight; the thread removes them later."""
        self._unavailable.pop(topic_partition, None)
        hosted = self._hosted.pop(topic_partition, None)
        if hosted is None:
            return
        hosted.flusher.forget(topic_partition)
        hosted.partition.step_down()
        if hosted.directory.failure is None:
            try:
                hosted.directory.delete_log(topic_partition, unique=self._runtime.randomness.uuid())
            except StorageFailure as failure:
                self.on_directory_failed(hosted.directory, failure)
        self._wake(topic_partition)
        logger.info("replica deleted", extra=fields(partition=topic_partition))

    def _host(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig, *, is_new: bool) -> _Hosted:
        directory, log = self.placement.find(topic_partition, topic_id) or self.placement.create(
            topic_partition, topic_id, config, is_new=is_new
        )
        checkpoint = directory.high_watermarks.get(topic_partition, 0)
        partition = Partition(self._config.broker_id, log, high_watermark=checkpoint)
        hosted = _Hosted(partition, directory, self._flushers[directory.path])
        self._hosted[topic_partition] = hosted
        return hosted

    def _high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, Offset]:
        """How far each partition on a directory is committed, for its checkpoint."""
        return {
            key: hosted.partition.high_watermark
            for key, hosted in self._hosted.items()
            if hosted.directory is directory
        }

    # Performing events.

    def _perform_for(self, partition: Partition, events: list[PartitionEvent]) -> None:
        if self.is_hosting(partition):
            self._perform(self._hosted[partition.topic_partition], events)
            self.produce_waiters.wake(
                partition.topic_partition
            )  # acks=1 waits for the flush, not for the high watermark.

    def _perform(self, hosted: _Hosted, events: list[PartitionEvent]) -> None:
        topic_partition = hosted.partition.topic_partition
        for event in events:
            match event:
                case LogEndAdvanced():
                    pass  # Nobody reads past the high watermark yet; followers will.
                case HighWatermarkAdvanced():
                    self._wake(topic_partition)
                case FlushWanted():
                    hosted.flusher.want(hosted.partition)
                case LeadershipChanged(leader_epoch):
                    self._wake(topic_partition)
                    logger.info("leading", extra=fields(partition=topic_partition, leader_epoch=leader_epoch))

    def _wake(self, topic_partition: TopicPartition) -> None:
        self.produce_waiters.wake(topic_partition)
        self.fetch_waiters.wake(topic_partition)

    # Failing.

    def storage_error(self, topic_partition: TopicPartition, failure: StorageFailure) -> ApiError:
        """What a client hears when the disk under a replica said no; anything but a full disk takes the directory offline."""
        hosted = self._hosted.get(topic_partition)
        if isinstance(failure, DiskFull):
            if not self._is_full:
                logger.error("disk full", extra=fields(partition=topic_partition, reason=failure.reason))
            self._is_full = True
        elif hosted is not None:
            self.on_directory_failed(hosted.directory, failure)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, failure.reason)

    def _take_failed_offline(self) -> None:
        for directory in self._directories:
            if directory.failure is not None:
                self.on_directory_failed(directory, directory.failure)

    def on_directory_failed(self, directory: LogDirectory, failure: StorageFailure) -> None:
        """Take a directory offline with everything on it; whoever waits there gets a storage error."""
        if directory in self._failed:
            return
        self._failed.append(directory)
        directory.health.fail(failure)
        logger.error("log directory failed", extra=fields(directory=directory.path, reason=failure))
        for topic_partition, hosted in self._hosted.items():
            if hosted.directory is directory:
                hosted.partition.go_offline()
                self._wake(topic_partition)
        if not any(True for _ in self.placement.online()):
            self.all_directories_failed.set()

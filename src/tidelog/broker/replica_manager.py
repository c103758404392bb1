"""The replicas this broker hosts: their directories, their partitions, and whoever waits on them.

Owns the log directories and performs what partitions ask for (wake waiters, flush). A log directory that fails takes its partitions
offline and nothing else; the broker goes on with the others and stops only when none is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from tidelog.broker.checkpointer import DirectoryCheckpointer
from tidelog.broker.fetchers import Fetchers, IsrChanges
from tidelog.broker.flusher import DirectoryFlusher
from tidelog.broker.hosting import Hosted, Hosting
from tidelog.broker.log_directories import close_cleanly, open_directories
from tidelog.broker.log_placement import LogPlacement
from tidelog.broker.marker_batches import MarkerBatches
from tidelog.broker.replica_waiters import ReplicaWaiters
from tidelog.broker.topic_traffic import TopicTraffic
from tidelog.broker.validation import BatchValidation, writable
from tidelog.config import BrokerConfig
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import (
    NO_PRODUCER_ID,
    Acks,
    ApiError,
    BrokerEpoch,
    ErrorCode,
    Offset,
    ProducerId,
    TopicPartition,
)
from tidelog.partition import (
    FlushWanted,
    HighWatermarkAdvanced,
    IsrChangeWanted,
    LeadershipChanged,
    LogEndAdvanced,
    LogTruncated,
    LowWatermarkAdvanced,
    Partition,
    PartitionEvent,
)
from tidelog.records import Validated
from tidelog.runtime import DiskFull, Runtime, StorageFailure
from tidelog.runtime.disk import Buffer
from tidelog.runtime.logs import fields
from tidelog.storage import Appended, Guard, LogDirectory

logger = logging.getLogger(__name__)

_PRODUCERS_AT_ONCE: Final = 10_000
_PLAUSIBLE_PRODUCER_ID_MAX: Final = 2**62
"""No cluster gives so many. Whoever writes under a higher one has made it up, and must not use up those that are left."""


class ReplicaManager(ReplicaWaiters):
    """Everything this broker stores. Lives from after recovery until every log is closed."""

    fetchers: Fetchers
    isr_changes: IsrChanges

    def __init__(self, config: BrokerConfig, runtime: Runtime) -> None:
        super().__init__()
        self._config = config
        self._runtime = runtime
        self._directories: list[LogDirectory] = []
        self.placement = LogPlacement(config, runtime, self._directories)
        self._failed: list[LogDirectory] = []
        self.flushers: dict[str, DirectoryFlusher] = {}
        self._checkpointers: dict[str, DirectoryCheckpointer] = {}
        self.hosting = Hosting()
        self._markers = MarkerBatches()
        self._is_full = False  # Said once; said again when an append has worked in between.
        self.directory_failed = asyncio.Event()
        """Set whenever a directory went offline; whoever tells the controller clears it."""
        self.all_directories_failed = asyncio.Event()
        self.broker_epoch: BrokerEpoch = -1
        """The epoch of our registration, for the mark of a clean shutdown."""
        self.validation = BatchValidation(runtime, self.partition)

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
                    self.flushers[directory.path] = self._flusher(directory)
                    await flushers.enter_async_context(self.flushers[directory.path].running())
                yield
        finally:
            await self._close()

    def _flusher(self, directory: LogDirectory) -> DirectoryFlusher:
        return DirectoryFlusher(
            self._runtime.disk.threads(directory.path),
            on_flushed=self._on_flushed,
            on_failed=partial(self.on_directory_failed, directory),
        )

    async def _close(self) -> None:
        for directory in self._directories:
            if directory in self._failed:
                directory.release()
                continue
            try:
                threads = self._runtime.disk.threads(directory.path)
                await close_cleanly(directory, threads, self._high_watermarks, self.broker_epoch)
            except StorageFailure as failure:
                directory.release()
                logger.error("no clean shutdown", extra=fields(directory=directory.path, reason=failure))

    # Looking.

    @property
    def directories(self) -> list[LogDirectory]:
        """All log directories, the failed ones included."""
        return self._directories

    @property
    def traffic(self) -> TopicTraffic:
        """What goes in and out."""
        return self.hosting.traffic

    def partitions(self) -> Iterator[tuple[Partition, LogDirectory]]:
        """Every replica on a directory that works."""
        for _, hosted in self.hosting.pairs():
            if hosted.directory.failure is None:
                yield hosted.partition, hosted.directory

    async def highest_producer_id(self) -> ProducerId:
        """The highest plausible id of all producers that the logs know, with a look at the world now and then."""
        highest, looks = NO_PRODUCER_ID, 0
        for partition, _ in list(self.partitions()):
            producers = partition.log.active_producers()
            ids = (producer.producer_id for producer in producers)
            highest = max((highest, *(each for each in ids if each <= _PLAUSIBLE_PRODUCER_ID_MAX)))
            looks += len(producers)
            if looks > _PRODUCERS_AT_ONCE:
                looks = 0
                await asyncio.sleep(0)
        return highest

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The replica. Raises ApiError where it is not here."""
        return self._require(topic_partition).partition

    def _require(self, topic_partition: TopicPartition) -> Hosted:
        hosted = self.hosting.get(topic_partition)
        if hosted is not None:
            return hosted
        if topic_partition in self.hosting.unavailable:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the log of this replica cannot be had at present")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # Writing.

    def append(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        acks: Acks,
        produce_version: int,
        validated: Validated | None = None,
        guard: Guard | None = None,
    ) -> tuple[Partition, Appended]:
        """Append a produced batch to the replica that leads. Raises ApiError."""
        partition = self._require(topic_partition).partition
        try:
            appended, events = partition.append_as_leader(
                writable(batch),
                acks=acks,
                produce_version=produce_version,
                now_ms=self._runtime.clock.wall_ms(),
                validated=validated,
                guard=guard,
            )
        except StorageFailure as failure:
            raise self.storage_error(topic_partition, failure) from failure
        self._on_appended(partition, events, appended, len(batch))
        return partition, appended

    def append_own(self, partition: Partition, validated: Validated) -> Appended:
        """Append a batch of a coordinator that keeps its state in this replica, with acks=all. Raises ApiError."""
        try:
            appended, events = partition.append_own(validated, now_ms=self._runtime.clock.wall_ms())
        except StorageFailure as failure:
            raise self.storage_error(partition.topic_partition, failure) from failure
        self._on_appended(partition, events, appended, len(validated.batch))
        return appended

    def append_marker(self, topic_partition: TopicPartition, end: TransactionEnd) -> tuple[Partition, Appended]:
        """Append to the replica that leads how a transaction ended, with acks=all. Raises ApiError."""
        partition = self._require(topic_partition).partition
        now_ms = self._runtime.clock.wall_ms()
        marker = self._markers.build(end, now_ms)
        try:
            appended, events = partition.append_marker(marker, now_ms=now_ms, has_own_epoch=end.has_own_epoch)
        except StorageFailure as failure:
            raise self.storage_error(topic_partition, failure) from failure
        self._on_appended(partition, events, appended, len(marker))
        return partition, appended

    def _on_appended(
        self, partition: Partition, events: Sequence[PartitionEvent], appended: Appended, size: int
    ) -> None:
        self._is_full = False
        if not appended.is_duplicate:
            traffic = self.traffic.of(partition.topic_partition.topic)
            traffic.bytes_in += size
            traffic.messages_in += appended.last_offset - appended.base_offset + 1
        self.perform(partition, events)

    def want_flush(self, partition: Partition) -> None:
        """Flush the partition soon, because its time has come."""
        hosted = self.hosting.get(partition.topic_partition)
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

    def replicate_with(self, fetchers: Fetchers, isr_changes: IsrChanges) -> None:
        """Those who replicate; named after the fact, since they need this manager first."""
        self.fetchers = fetchers
        self.isr_changes = isr_changes

    def _high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, Offset]:
        """How far each partition on a directory is committed, for its checkpoint."""
        return {
            key: hosted.partition.high_watermark
            for key, hosted in self.hosting.pairs()
            if hosted.directory is directory
        }

    # Performing events.

    def _on_flushed(self, partition: Partition, events: list[PartitionEvent]) -> None:
        self.perform(partition, events)
        self.produce_waiters.wake(partition.topic_partition)  # acks=1 waits for the flush, not for the high watermark.
        self.flushes.wake(partition.topic_partition)

    def perform(self, partition: Partition, events: Sequence[PartitionEvent]) -> None:
        """Do what a change of a replica calls for; nothing for one that is no longer here."""
        topic_partition = partition.topic_partition
        hosted = self.hosting.get(topic_partition)
        if hosted is None or hosted.partition is not partition:
            return
        for event in events:
            match event:
                case LogEndAdvanced():
                    self.follower_waiters.wake(topic_partition)
                case HighWatermarkAdvanced():
                    self.produce_waiters.wake(topic_partition)
                    self.fetch_waiters.wake(topic_partition)
                case FlushWanted():
                    hosted.flusher.want(partition)
                case LowWatermarkAdvanced():
                    self.deletion_waiters.wake(topic_partition)
                case LeadershipChanged():
                    self.wake_all(topic_partition)
                case IsrChangeWanted(proposal):
                    self.isr_changes.propose(partition, proposal)
                case LogTruncated(from_offset, to_offset):
                    self.wake_all(topic_partition)
                    logger.info(
                        "log truncated",
                        extra=fields(partition=topic_partition, from_offset=from_offset, to_offset=to_offset),
                    )

    # Failing.

    def storage_error(self, topic_partition: TopicPartition, failure: StorageFailure) -> ApiError:
        """What a client hears when the disk under a replica said no; anything but a full disk takes the directory offline."""
        hosted = self.hosting.get(topic_partition)
        if isinstance(failure, DiskFull):
            if not self._is_full:
                logger.error("disk full", extra=fields(partition=topic_partition, reason=failure.reason))
            self._is_full = True
        elif hosted is not None:
            self.on_directory_failed(hosted.directory, failure)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, failure.reason)

    def on_directory_failed(self, directory: LogDirectory, failure: StorageFailure) -> None:
        """Take a directory offline with everything on it; whoever waits there gets a storage error."""
        if directory in self._failed:
            return
        self._failed.append(directory)
        directory.health.fail(failure)
        logger.error("log directory failed", extra=fields(directory=directory.path, reason=failure))
        for topic_partition, hosted in self.hosting.pairs():
            if hosted.directory is directory:
                hosted.partition.go_offline()
                self.fetchers.unfollow(topic_partition)
                self.wake_all(topic_partition)
        self.directory_failed.set()
        if not any(True for _ in self.placement.online()):
            self.all_directories_failed.set()

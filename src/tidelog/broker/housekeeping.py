"""What must happen from time to time: checkpoints, retention, timed flushes, forgotten producers, removal of retired files.

Each chore has its own interval and its own task; what may block (writing checkpoints, unlinking) goes to the threads of its directory.
A chore that meets a failed disk takes that directory offline and goes on with the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.config import BrokerConfig
from tidelog.model import TimestampMs
from tidelog.partition import Partition
from tidelog.runtime import DiskFull, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Housekeeping:
    """The chores of one broker."""

    config: BrokerConfig
    runtime: Runtime
    replicas: ReplicaManager
    roles: ReplicaRoles

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do the chores until the block is left."""
        config = self.config
        chores = (
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint),
            (config.log_flush_scheduler_interval_ms, self.flush_overdue),
            (config.log_flush_scheduler_interval_ms, self.retry_unavailable),
            (config.log_retention_check_interval_ms, self.apply_retention),
            (config.producer_id_expiration_check_interval_ms, self.expire_producers),
            (_REMOVAL_INTERVAL_MS, self.remove_retired),
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_repeat(interval_ms, chore)) for interval_ms, chore in chores]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def checkpoint(self) -> None:
        """Remember for the next start how far each log is committed and flushed, and where it starts."""
        for directory in self.replicas.directories:
            await self.replicas.checkpoint(directory)

    async def flush_overdue(self) -> None:
        """Flush what `flush.ms` says has waited long enough, and what found the disk full the last time."""
        now_ms = self.runtime.clock.wall_ms()
        for position, (partition, _) in enumerate(self.replicas.partitions(), 1):
            if partition.log.is_flush_wanted or partition.log.is_flush_due(now_ms):
                self.replicas.want_flush(partition)
            if position % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def retry_unavailable(self) -> None:
        """Try again to have the logs that a full disk has kept from us."""
        self.roles.retry_unavailable()

    async def apply_retention(self) -> None:
        """Delete segments that are too old, too many, or below the log start; end those that have been active for too long."""
        now_ms = self.runtime.clock.wall_ms()
        for partition, directory in self.replicas.partitions():
            try:
                count = await self._delete_old_segments(partition, now_ms)
                if self.replicas.hosting.holds(partition):
                    partition.log.maybe_roll(now_ms)
            except DiskFull as full:
                logger.error("disk full", extra=fields(partition=partition.topic_partition, reason=full.reason))
                continue
            except StorageFailure as failure:
                self.replicas.on_directory_failed(directory, failure)
                continue
            if count:
                logger.info("segments deleted", extra=fields(partition=partition.topic_partition, count=count))

    async def _delete_old_segments(self, partition: Partition, now_ms: TimestampMs) -> int:
        """Some at a time, so that others have their turn on the loop in between."""
        total = 0
        while self.replicas.hosting.holds(partition):
            count = partition.log.delete_old_segments(now_ms, partition.high_watermark)
            total += count
            await asyncio.sleep(0)
            if count == 0:
                break
        return total

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for producer.id.expiration.ms."""
        now_ms = self.runtime.clock.wall_ms()
        for position, (partition, _) in enumerate(self.replicas.partitions(), 1):
            partition.log.expire_producers(now_ms)
            if position % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def remove_retired(self) -> None:
        """Unlink files whose delay for readers that still hold them is over."""
        for directory in self.replicas.directories:
            removal = directory.take_removal(self.runtime.clock.wall_ms())
            if removal is not None:
                await self._in_thread(directory, removal.perform)

    async def _in_thread(self, directory: LogDirectory, work: Callable[[], None]) -> None:
        """Have it done, and do not leave before it is: whoever closes the directory next must not meet it."""
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(self.runtime.disk.threads(directory.path), work)
        try:
            await asyncio.shield(working)
        except StorageFailure as failure:
            self.replicas.on_directory_failed(directory, failure)
        except asyncio.CancelledError:
            await asyncio.wait((working,))
            raise


_REMOVAL_INTERVAL_MS = 5_000
_PARTITIONS_AT_ONCE = 500


async def _repeat(interval_ms: int, chore: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await chore()

"""Runs compaction: picks the dirtiest log, has a child process rewrite it, and swaps the result in on the loop.

The child writes `.cleaned` files only. If the log changed in a way that makes them worthless meanwhile (it was deleted, or cut), or if
they found no space, they are removed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from tidelog.broker.live_config import LiveConfig
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.config import BrokerConfig
from tidelog.partition import Partition
from tidelog.records import CorruptBatch
from tidelog.runtime import DiskFull, FileMissing, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory
from tidelog.storage.compaction import CleanResult, clean
from tidelog.storage.compaction_facts import can_replace, compaction_facts
from tidelog.storage.compaction_plan import Assessment, CompactionPlan, assess, choose, plan_compaction
from tidelog.storage.key_offsets import ENTRY_BYTES
from tidelog.storage.swap import discard_cleaned

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogCleaner:
    """One compaction at a time for the whole broker."""

    live_config: LiveConfig
    runtime: Runtime
    replicas: ReplicaManager
    # A damaged batch was met, which compacting would hide, and the log has not been cut since.
    _uncleanable: list[tuple[Partition, int]] = field(default_factory=list)

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self.live_config.current

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compact whatever is due until the block is left."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._run()) if self.config.log_cleaner_enable else None
            try:
                yield
            finally:
                if task is not None:
                    task.cancel()

    async def _run(self) -> None:
        while True:
            if not await self.clean_one():
                await asyncio.sleep(self.config.log_cleaner_backoff_ms / 1000)

    async def clean_one(self) -> bool:
        """Compact the log that needs it most; False where none does."""
        assessed = list(self._assessments())
        chosen = choose([assessment for assessment, _, _ in assessed])
        if chosen is None:
            return False
        partition, directory = next((p, d) for assessment, p, d in assessed if assessment is chosen)
        keys_max = max(1, self.config.log_cleaner_dedupe_buffer_bytes // ENTRY_BYTES)
        plan = plan_compaction(chosen, keys_max=keys_max, now_ms=self.runtime.clock.wall_ms())
        cut_count = partition.log.cut_count
        result = await self._clean(partition, directory, plan)
        if (
            result is not None
            and self._is_as_planned(partition, cut_count)
            and can_replace(partition.log, result.replaced)
        ):
            return self._swap(partition, directory, result)
        if self.replicas.hosting.holds(partition):
            await self._in_thread(directory, partial(discard_cleaned, self.runtime.disk, partition.log.directory))
        return result is not None

    def _is_as_planned(self, partition: Partition, cut_count: int) -> bool:
        """Whether what the child has read are still the records of the log."""
        return self.replicas.hosting.holds(partition) and partition.log.cut_count == cut_count

    def _assessments(self) -> Iterator[tuple[Assessment, Partition, LogDirectory]]:
        now_ms = self.runtime.clock.wall_ms()
        self._uncleanable = [known for known in self._uncleanable if self._is_as_planned(*known)]
        uncleanable = [partition for partition, _ in self._uncleanable]
        for partition, directory in self.replicas.partitions():
            if not partition.log.config.is_compacted or partition in uncleanable:
                continue
            facts = compaction_facts(partition.log, last_stable_offset=partition.last_stable_offset)
            checkpoint = directory.cleaner_offsets.get(partition.topic_partition)
            assessment = assess(facts, checkpoint=checkpoint, now_ms=now_ms)
            if assessment is not None:
                yield assessment, partition, directory

    async def _clean(self, partition: Partition, directory: LogDirectory, plan: CompactionPlan) -> CleanResult | None:
        loop, cut_count = asyncio.get_running_loop(), partition.log.cut_count
        try:
            return await loop.run_in_executor(self.runtime.disk.child(), clean, self.runtime.disk, plan)
        except CorruptBatch as corrupt:
            if self._is_as_planned(partition, cut_count):
                self._uncleanable.append((partition, cut_count))
                partition.log.note_damage(partition.log.segments[-1].base_offset)
                logger.error(
                    "compaction met a damaged batch", extra=fields(partition=partition.topic_partition, reason=corrupt)
                )
        except (DiskFull, FileMissing) as failure:
            # Space may return; and files go while the child reads when the topic is deleted, or its old segments are.
            logger.warning("compaction given up", extra=fields(partition=partition.topic_partition, reason=failure))
        except StorageFailure as failure:
            self.replicas.on_directory_failed(directory, failure)
        except BrokenExecutor as broken:
            # Somebody, often the system when memory is short, has killed the child; the next compaction gets a new one.
            logger.warning("compaction child died", extra=fields(partition=partition.topic_partition, reason=broken))
        return None

    async def _in_thread(self, directory: LogDirectory, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self.runtime.disk.threads(directory.path), work)
        except StorageFailure as failure:
            self.replicas.on_directory_failed(directory, failure)

    def _swap(self, partition: Partition, directory: LogDirectory, result: CleanResult) -> bool:
        now_ms = self.runtime.clock.wall_ms()
        try:
            partition.log.replace_segments(cleaned=result.cleaned, replaced=result.replaced, now_ms=now_ms)
        except DiskFull as full:
            logger.warning("compaction given up", extra=fields(partition=partition.topic_partition, reason=full))
            return False
        except StorageFailure as failure:
            self.replicas.on_directory_failed(directory, failure)
            return True
        directory.cleaner_offsets[partition.topic_partition] = result.first_dirty_offset
        logger.info(
            "log compacted",
            extra=fields(
                partition=partition.topic_partition,
                bytes_before=result.bytes_before,
                bytes_after=result.bytes_after,
                records_before=result.records_before,
                records_after=result.records_after,
            ),
        )
        return True

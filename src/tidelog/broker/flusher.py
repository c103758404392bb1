"""Group commit: one fsync of a log for everyone who waits on it, and the logs of a directory side by side.

While an fsync is under way, partitions that want one gather; when it returns, all of them go into the next. So the rate of fsyncs is the
disk's, not the producers', and each request waits for at most two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

from tidelog.model import TopicPartition
from tidelog.partition import Partition, PartitionEvent
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.storage import Flush

_LOGS_AT_ONCE: Final = 100


class DirectoryFlusher:
    """Flushes the partitions of one log directory, in its threads."""

    def __init__(
        self,
        threads: Executor,
        *,
        on_flushed: Callable[[Partition, list[PartitionEvent]], None],
        on_failed: Callable[[StorageFailure], None],
    ) -> None:
        self._threads = threads
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._wanted: dict[TopicPartition, Partition] = {}
        self._has_work = asyncio.Event()
        self._turn = asyncio.Lock()  # A log's flushes follow each other.

    def want(self, partition: Partition) -> None:
        """Include the partition in the next fsync."""
        self._wanted[partition.topic_partition] = partition
        self._has_work.set()

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is being deleted; what is wanted of it no longer is."""
        self._wanted.pop(topic_partition, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve wishes until the block is left; those of that moment are still fulfilled."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._run())
            try:
                yield
            finally:
                await self._flush_wanted()
                async with self._turn:
                    task.cancel()

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            await self._flush_wanted()

    async def _flush_wanted(self) -> None:
        async with self._turn:
            self._has_work.clear()
            # An election of thousands of leaders has them all flush their epochs: others must have their turn on the loop in between.
            for _ in range(0, len(self._wanted), _LOGS_AT_ONCE):
                some = [self._wanted.pop(key) for key in list(islice(self._wanted, _LOGS_AT_ONCE))]
                try:
                    flushes = list(_started(some))
                    await perform_all(self._threads, [flush for _, flush in flushes])
                except StorageFailure as failure:
                    self._wanted.clear()
                    self._on_failed(failure)
                    return
                for partition, flush in flushes:
                    self._on_flushed(partition, partition.on_flushed(flush))


def _started(partitions: Iterable[Partition]) -> Iterator[tuple[Partition, Flush]]:
    for partition in partitions:
        try:
            flush = partition.log.start_flush()
        except DiskFull:
            continue  # The log still wants it, and will be asked again.
        if flush is not None:
            yield partition, flush


async def perform_all(threads: Executor, flushes: Iterable[Flush]) -> None:
    """Perform flushes side by side; the journal of the file system commits many of them at once. Raises the first failure, after all."""
    loop = asyncio.get_running_loop()
    done = await asyncio.gather(
        *(loop.run_in_executor(threads, flush.perform) for flush in flushes), return_exceptions=True
    )
    for result in done:
        if isinstance(result, BaseException):
            raise result

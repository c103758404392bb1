"""Validating produced batches off the loop, where their headers say that it takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.model import NO_LEADER_EPOCH, ApiError, TopicPartition, invariant
from tidelog.partition import Partition
from tidelog.records import Validated, is_laborious, validate_produced
from tidelog.runtime import Runtime
from tidelog.runtime.disk import Buffer


class BatchValidation:
    """One batch at a time, so that the memory for what it expands to is needed once."""

    def __init__(self, runtime: Runtime, find: Callable[[TopicPartition], Partition]) -> None:
        self._runtime = runtime
        self._find = find
        self._turn = asyncio.Lock()

    def is_long_work(self, topic_partition: TopicPartition, batch: Buffer, *, produce_version: int) -> bool:
        """Whether validating the batch would hold the loop for too long."""
        try:
            rules = self._find(topic_partition).rules.for_version(produce_version)
        except ApiError:
            return False  # Refused before anything is looked at.
        return is_laborious(batch, rules, self._runtime.clock.wall_ms())

    async def validate(self, topic_partition: TopicPartition, batch: Buffer, *, produce_version: int) -> Validated:
        """Validate a batch in a thread of its log directory. Raises ApiError."""
        partition = self._find(topic_partition)
        partition.check_leader_epoch(NO_LEADER_EPOCH)
        log_directory, _, _ = partition.log.directory.rpartition("/")
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(
                self._runtime.disk.threads(log_directory),
                validate_produced,
                writable(batch),
                partition.rules.for_version(produce_version),
                self._runtime.clock.wall_ms(),
            )


def writable(batch: Buffer) -> bytearray | memoryview:
    """The batch, which is stamped in place, so its frame is writable."""
    invariant(not isinstance(batch, bytes), "a batch is stamped in place, so its frame is writable")
    return batch  # type: ignore[return-value]  # the invariant above

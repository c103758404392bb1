"""Counting visible records for whoever wants to know how far behind a group really is: one request at a time, in slices, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tidelog.model import ApiError, ErrorCode
from tidelog.partition import Partition
from tidelog.storage.visible import VisibleCounting
from tidelog.wire.messages.count_visible_records import CountFrom, VisibleRecordsOfPartition

WORK_MAX: Final = 100_000
"""Batches and index entries that one request may look at: some hundred milliseconds of work. Whoever wants more asks again."""


class Turn:
    """The counting of one request, as long as its work lasts."""

    def __init__(self, work_max: int) -> None:
        self._left = work_max
        self._has_counted = False

    async def count(self, partition: Partition, asked: CountFrom) -> VisibleRecordsOfPartition:
        """From the offset asked for to the last stable offset, or as far as the work lasts. Raises ApiError, StorageFailure."""
        partition.check_leader_epoch(asked.current_leader_epoch)
        if not partition.is_end_known:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        log, reign = partition.log, partition.reign
        begin = max(asked.offset, log.log_start_offset)
        counting = VisibleCounting(begin, partition.last_stable_offset)
        while not counting.is_done and self._may_go_on:
            before = counting.work
            log.count_visible(counting)
            self._left -= counting.work - before
            self._has_counted |= counting.next_offset > begin
            await asyncio.sleep(0)
            partition.check_reign(reign)
        return VisibleRecordsOfPartition(
            partition_index=asked.partition_index,
            error_code=ErrorCode.NONE,
            visible_count=counting.count,
            is_exact=counting.is_exact,
            counted_to=counting.next_offset,
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
            log_start_offset=log.log_start_offset,
        )

    @property
    def _may_go_on(self) -> bool:
        """However much there is to know before the first record can be counted, the next request would not know it either."""
        return self._left > 0 or not self._has_counted


class VisibleRecords:
    """Who may count: it takes the loop from others, so there is never more than one request that does."""

    def __init__(self, *, work_max: int = WORK_MAX) -> None:
        self._work_max = work_max
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Wait until nobody else counts."""
        async with self._lock:
            yield Turn(self._work_max)

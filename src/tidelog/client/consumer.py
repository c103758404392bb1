"""Reading records: assign partitions or subscribe with a group, then `poll`, or iterate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from math import inf
from types import TracebackType
from typing import Final

from tidelog.client.assignment import Assignment, Watermarks
from tidelog.client.brought import Settings, brought
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ConsumerConfig
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import ClientClosed, NoPosition
from tidelog.client.fetched import ConsumedRecord
from tidelog.client.fetcher import Fetcher
from tidelog.client.groups.driver import GroupDriver
from tidelog.client.groups.group import GroupHandle
from tidelog.client.offsets import EARLIEST, LATEST, FoundOffset, OffsetLookup
from tidelog.client.scope import TaskScope
from tidelog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TimestampMs, TopicPartition

CLOSE_TIMEOUT_MS: Final = 30_000


class Consumer:
    """Reads partitions in offset order: `async with Consumer("127.0.0.1:9092", {"group.id": "g"}) as consumer`.

    Several clients may share a cluster, its settings and its runtime, which are given instead of addresses then. Which partitions is said
    with `assign`, or by the members of its group (`group.subscribe`). Records are fetched ahead in the background, within
    fetch.max.bytes. Only one task may poll at a time.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        config: ConsumerConfig | Settings | None = None,
        runtime: ClientRuntime | None = None,
    ) -> None:
        ground = brought(cluster, config, runtime, ConsumerConfig, _own_cluster)
        self._own_cluster = ground.own
        cluster, runtime = ground.cluster, ground.runtime
        self._config = config = ground.config
        self._assignment = Assignment(policy=config.auto_offset_reset, buffered_bytes_max=config.fetch_max_bytes)
        self._fetcher = Fetcher(cluster, config, runtime, assignment=self._assignment, on_arrival=self._on_arrival)
        self._lookup = OffsetLookup(cluster, config, runtime, config.isolation_level)
        self._clock = runtime.clock
        self._driver = GroupDriver(cluster, config, runtime, assignment=self._assignment, on_news=self._on_group_news)
        self.group = GroupHandle(self._driver, config)
        """Subscribing, and committing offsets."""
        self._arrived = asyncio.Event()
        self._is_closed = False
        self._scope = TaskScope()

    @classmethod
    @asynccontextmanager
    async def connect(cls, config: ConsumerConfig, runtime: ClientRuntime) -> AsyncIterator[Consumer]:
        """A consumer with a cluster of its own, both gone when the block ends."""
        async with _own_cluster(config, runtime) as cluster, cls(cluster, config, runtime) as consumer:
            yield consumer

    async def __aenter__(self) -> Consumer:
        if self._own_cluster is not None:
            await self._own_cluster.__aenter__()
        await self._scope.open()
        self._scope.spawn(self._fetcher.run(self._scope), name="consumer")
        self._driver.start(self._scope)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A program that failed has perhaps not finished what it was given: its group shall read that again.
        await self.close(commits=kind is None)

    async def close(self, *, commits: bool = True, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit positions (enable.auto.commit, unless told not to), leave the group, stop fetching. Nothing runs afterwards.

        The coordinator gets as long as the timeout says; a static member stays in its group, for the one that follows it.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._on_arrival()
        try:
            await self._driver.depart(commits=commits, timeout_ms=timeout_ms)
        finally:
            try:
                await self._scope.close()
            finally:
                if self._own_cluster is not None:
                    await self._own_cluster.close()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions being read."""
        return self._assignment.topic_partitions

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; new ones begin where auto.offset.reset says, unless a seek follows.

        With group.id, they begin after what the group has committed, if it has. Raises WrongUse while topics are subscribed to.
        """
        self._driver.assign(topic_partitions)
        self._fetcher.wake()

    def seek(
        self, topic_partition: TopicPartition, offset: Offset, *, last_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> None:
        """Go on at `offset`. Raises NoPosition for a partition not assigned.

        With the leader epoch of the record before it, a log that was cut since is noticed (KIP-320).
        """
        if offset < 0:
            raise NoPosition(f"{offset} is no offset of {topic_partition}")
        self._assignment.seek(topic_partition, offset, last_epoch=last_epoch)
        self._fetcher.wake()

    def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the start of these logs, or of all assigned ones."""
        self._seek_to(topic_partitions, OffsetReset.EARLIEST)

    def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the end of these logs, or of all assigned ones: the last stable offset under read_committed."""
        self._seek_to(topic_partitions, OffsetReset.LATEST)

    async def position(self, topic_partition: TopicPartition) -> Offset:
        """The offset of the next record that will be handed out, or of the gap before it.

        Waits for a reset under way for default.api.timeout.ms, then raises NoPosition; or raises what keeps the partition from being read.
        """
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                while (position := self._assignment.state(topic_partition).position) is None:
                    error = self._assignment.state(topic_partition).error
                    if error is not None:
                        raise error
                    await self._wait_for_arrival()
                return position
        except TimeoutError:
            raise NoPosition(f"no position in {topic_partition} in time") from None

    def watermarks(self, topic_partition: TopicPartition) -> Watermarks:
        """What the leader said with the last fetch about where the log begins and ends; -1 before the first."""
        return self._assignment.state(topic_partition).watermarks

    async def poll(self, *, max_records: int | None = None, timeout_ms: float = 0) -> list[ConsumedRecord]:
        """Records in order per partition, as soon as there are any, at most `max_records` (max.poll.records); [] after the timeout.

        Raises CorruptRecords, OffsetOutOfRange, LogTruncated, FetchFailed or NoPosition, again and again until a seek leads elsewhere;
        GroupRefused, or RequestRefused, until another subscription does. What a group's listeners raise comes from here, too.
        """
        count_max = self._config.max_poll_records if max_records is None else max_records
        return await self._next_records(count_max, timeout_ms=timeout_ms)

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumedRecord:
        """The next record, waited for as long as it takes; `position` is then the one after it. Ends when the consumer is closed."""
        while not self._is_closed:
            try:
                taken = await self._next_records(1, timeout_ms=None)
            except ClientClosed:
                break
            if taken:
                return taken[0]
        raise StopAsyncIteration

    async def beginning_offsets(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The first offset of each log."""
        return await self._ends(topic_partitions, EARLIEST)

    async def end_offsets(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The offset after the last one readable: the high watermark, or the last stable offset under read_committed."""
        return await self._ends(topic_partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, TimestampMs]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """For each partition the first record at or after a time, or None where there is none."""
        return await self._lookup.find(timestamps)

    async def _ends(self, topic_partitions: Iterable[TopicPartition], end: int) -> dict[TopicPartition, Offset]:
        found = await self._lookup.find(dict.fromkeys(topic_partitions, end))
        return {topic_partition: 0 if answer is None else answer.offset for topic_partition, answer in found.items()}

    def _seek_to(self, topic_partitions: tuple[TopicPartition, ...], where: OffsetReset) -> None:
        for topic_partition in topic_partitions or self._assignment.topic_partitions:
            self._assignment.seek_to(topic_partition, where)
        self._fetcher.wake()

    async def _next_records(self, count_max: int, *, timeout_ms: float | None) -> list[ConsumedRecord]:
        loop = asyncio.get_running_loop()
        deadline_s = inf if timeout_ms is None else loop.time() + timeout_ms / 1000
        while True:
            if self._is_closed:
                raise ClientClosed("the consumer is closed")
            is_clear = self._driver.has_no_group or await self._driver.advance(deadline_s)
            if is_clear and (taken := self._take(count_max)):
                return taken
            due_ms = self._driver.due_ms
            due_s = inf if due_ms is None else loop.time() + max(due_ms - self._clock.monotonic_ms(), 1) / 1000
            try:
                async with asyncio.timeout_at(None if deadline_s == due_s == inf else min(deadline_s, due_s)):
                    await self._wait_for_arrival()
            except TimeoutError:
                if loop.time() >= deadline_s:
                    return []

    def _take(self, count_max: int) -> list[ConsumedRecord]:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        self._arrived.clear()
        taken = self._assignment.take(count_max)
        if taken:
            self._fetcher.wake()
        return taken

    async def _wait_for_arrival(self) -> None:
        await self._arrived.wait()
        self._arrived.clear()

    def _on_arrival(self) -> None:
        self._arrived.set()

    def _on_group_news(self) -> None:
        self._fetcher.wake()
        self._on_arrival()


def _own_cluster(config: ConsumerConfig, runtime: ClientRuntime) -> Cluster:
    return Cluster(config, runtime, creates_topics=config.allow_auto_create_topics)

"""Sending records: `await producer.send(...)` puts a record into a batch and returns a future of where it ended up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

from tidelog.client.accumulator import Accumulator, AccumulatorLimits
from tidelog.client.batch import EncodedRecords, OutgoingRecord, RecordMetadata, read_encoded
from tidelog.client.brought import Settings, brought
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ProducerConfig
from tidelog.client.errors import (
    BufferExhausted,
    ClientClosed,
    ClientError,
    ProducerFenced,
    TransactionPending,
    TransactionRefused,
    WrongUse,
)
from tidelog.client.metadata import TopicMetadata
from tidelog.client.partitioner import StickyPartitioner, partition_for_key
from tidelog.client.scope import TaskScope
from tidelog.client.sender import Sender
from tidelog.client.sequencing import Sequencer
from tidelog.client.transactions.batches import TransactionalBatches
from tidelog.client.transactions.calls import TransactionCalls
from tidelog.client.transactions.manager import TransactionManager
from tidelog.client.transactions.state import TransactionState
from tidelog.model import TimestampMs, TopicPartition
from tidelog.records.record import RecordHeader
from tidelog.runtime.disk import Buffer

_SLACK_MS: Final = 1_000


class _FutureDelivery:
    """Hands the outcome of one record to the future its sender holds."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[RecordMetadata]) -> None:
        self.future = future

    def succeed(self, metadata: RecordMetadata) -> None:
        if not self.future.done():
            self.future.set_result(metadata)

    def fail(self, error: ClientError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            # Whoever sends without looking back does so on purpose; asyncio need not complain that nobody asked.
            self.future.exception()


class Producer(TransactionCalls):
    """Batches, compresses, sends and retries records: `async with Producer("127.0.0.1:9092", {"linger.ms": 5}) as producer`.

    Several clients may share a cluster, its settings and its runtime, which are given instead of addresses then.

    With idempotence (the default) every record is in the log once and in order, as long as this producer lives. Leaving the block waits for
    all deliveries, unless it is left by an exception. With a transactional.id records can be sent in transactions only.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        config: ProducerConfig | Settings | None = None,
        runtime: ClientRuntime | None = None,
    ) -> None:
        ground = brought(cluster, config, runtime, ProducerConfig, _own_cluster)
        self._own_cluster = ground.own
        self._cluster = cluster = ground.cluster
        self._config = config = ground.config
        self._runtime = runtime = ground.runtime
        sequencer = Sequencer(may_bump=config.transactional_id is None) if config.enable_idempotence else None
        self._accumulator = Accumulator(_limits(config), sequencer)
        self._sticky = StickyPartitioner(runtime.randomness)
        self._sender = Sender(
            cluster,
            config,
            runtime,
            accumulator=self._accumulator,
            sequencer=sequencer,
            on_progress=self._on_progress,
        )
        self._state = TransactionState()
        self._transactions: TransactionManager | None = None
        if sequencer is not None and config.transactional_id is not None:
            batches = TransactionalBatches(self._state, self._accumulator, sequencer, self._on_progress)
            self._sender.transaction = batches
            self._transactions = TransactionManager(cluster, config, runtime, state=self._state, batches=batches)
        self._room_waiters: deque[tuple[OutgoingRecord | EncodedRecords, asyncio.Future[None]]] = deque()
        self._flush_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_closed = False
        self._scope = TaskScope()

    @classmethod
    @asynccontextmanager
    async def connect(cls, config: ProducerConfig, runtime: ClientRuntime) -> AsyncIterator[Producer]:
        """A producer with a cluster of its own, both gone when the block ends."""
        async with _own_cluster(config, runtime) as cluster, cls(cluster, config, runtime) as producer:
            yield producer

    async def __aenter__(self) -> Producer:
        if self._own_cluster is not None:
            await self._own_cluster.__aenter__()
        await self._scope.open()
        self._scope.spawn(self._sender.run(self._scope), name="producer")
        if self._transactions is not None:
            self._scope.spawn(self._transactions.run(), name="producer's transactions")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(timeout_ms=None if kind is None else 0)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: TimestampMs | None = None,
        headers: Sequence[RecordHeader] = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record into a batch, waiting at most max.block.ms for metadata and memory; the future tells its fate.

        The future raises ProduceFailed, DeliveryTimeout, ClientClosed or ConnectionLost (retries used up). Send itself raises
        RecordTooLarge, BufferExhausted, TopicUnavailable, BrokersUnreachable or ClientClosed.
        """
        self._check_open()
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        timestamp = self._runtime.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        record = OutgoingRecord(timestamp, key, value, tuple(headers), _FutureDelivery(future))
        topic_metadata = await self._admit(record, topic, 1 if partition is None else partition + 1)
        if partition is None:
            partition = self._choose_partition(topic_metadata, record)
        topic_partition = self._enlisted(TopicPartition(topic, partition))
        if self._accumulator.append(topic_partition, record, self._runtime.clock.monotonic_ms()):
            self._sender.wake()
        return future

    async def send_batch(
        self, topic: str, partition: int, encoded: Buffer, record_count: int
    ) -> asyncio.Future[RecordMetadata]:
        """Send a whole batch (magic 2) that was encoded elsewhere, as it is; the future tells where its first record ended up.

        Who sends it is written into `encoded`, which belongs to the producer until the future is done; what cannot be written to is
        copied. Waits and raises as `send` does, and WrongUse for what is not one batch of so many records.
        """
        self._check_open()
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        records = read_encoded(encoded, record_count, _FutureDelivery(future))
        await self._admit(records, topic, partition + 1)
        topic_partition = self._enlisted(TopicPartition(topic, partition))
        self._accumulator.append(topic_partition, records, self._runtime.clock.monotonic_ms())
        self._sender.wake()
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[RecordHeader] = (),
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged."""
        return await (await self.send(topic, value, key=key, partition=partition, headers=headers))

    async def flush(self) -> None:
        """Send everything now and wait until the fate of every record sent before this call is known; bounded by delivery.timeout.ms."""
        appended_count = self._accumulator.appended_count
        if self._accumulator.is_settled_up_to(appended_count):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush_waiters.append((appended_count, waiter))
        self._update_urgency()
        try:
            await waiter
        finally:
            self._flush_waiters = [entry for entry in self._flush_waiters if entry[1] is not waiter]
            self._update_urgency()

    async def close(self, *, timeout_ms: float | None = None) -> None:
        """Flush for at most `timeout_ms`, then fail what remains with ClientClosed and stop. Nothing runs afterwards.

        A transaction that is open is aborted instead; one that is prepared, or being ended, is left to be ended by somebody else.
        """
        if self._is_closed:
            return
        self._is_closed = True
        # Every record has met its fate by then, and the slack lets the last one's be told as what it is.
        delay_ms = self._config.delivery_timeout_ms + _SLACK_MS if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(delay_ms / 1000):
                if self._transactions is not None and self._state.is_open:
                    await self._transactions.abort()
                await self.flush()
        except (TimeoutError, TransactionPending, TransactionRefused, ProducerFenced):
            pass  # the coordinator aborts it when its time is up
        finally:
            for batch in self._accumulator.abandon():
                trouble = self._sender.trouble_of(batch)
                why = "" if trouble is None else f"; last: {trouble}"
                batch.fail(ClientClosed(f"the producer was closed before the record was acknowledged{why}"))
            self._on_progress()
            try:
                await self._scope.close()
            finally:
                if self._own_cluster is not None:
                    await self._own_cluster.close(timeout_ms=timeout_ms)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._sender.refusal is not None:
            raise self._sender.refusal
        if self._sender.transaction is not None:
            self._sender.transaction.check_open()

    async def _admit(
        self, record: OutgoingRecord | EncodedRecords, topic: str, partition_count_min: int
    ) -> TopicMetadata:
        """Wait until the topic is known and there is room. In the step in which this returns the caller must take the room."""
        transaction = self._state.ordinal
        topic_metadata = await self._topic(topic, partition_count_min)
        if not self._accumulator.has_room(record) or self._room_waiters:
            await self._wait_for_room(record)
        self._check_open()
        if self._state.ordinal != transaction:
            raise WrongUse("the transaction in which send() was called has ended: the record was not sent")
        return topic_metadata

    def _enlisted(self, topic_partition: TopicPartition) -> TopicPartition:
        """The partition, which is part of the transaction from now on, if there is one."""
        if self._sender.transaction is not None:
            self._sender.transaction.enlist(topic_partition)
        return topic_partition

    async def _topic(self, name: str, partition_count_min: int) -> TopicMetadata:
        found = self._cluster.metadata.topic(name)
        if found is not None and len(found.partitions) >= partition_count_min:
            self._cluster.track(name)
            return found
        timeout_ms = self._config.max_block_ms
        return await self._cluster.topic(name, partition_count_min=partition_count_min, timeout_ms=timeout_ms)

    def _choose_partition(self, topic: TopicMetadata, record: OutgoingRecord) -> int:
        if record.key is not None:
            return partition_for_key(record.key, len(topic.partitions))
        current = self._sticky.current(topic.name)
        if current is not None and self._still_sticks(topic, current, record):
            return current
        led = [partition.index for partition in topic.partitions if partition.has_leader]
        return self._sticky.move_on(topic.name, led or range(len(topic.partitions)))

    def _still_sticks(self, topic: TopicMetadata, index: int, record: OutgoingRecord) -> bool:
        """Whether the sticky partition is there, led, and has a batch that takes one more record."""
        if index >= len(topic.partitions) or not topic.partitions[index].has_leader:
            return False
        now_ms = self._runtime.clock.monotonic_ms()
        return not self._accumulator.needs_new_batch(TopicPartition(topic.name, index), record, now_ms)

    async def _wait_for_room(self, record: OutgoingRecord | EncodedRecords) -> None:
        """Queue for memory, first come first served."""
        entry = (record, asyncio.get_running_loop().create_future())
        self._room_waiters.append(entry)
        self._update_urgency()
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await entry[1]
        except TimeoutError:
            used = self._accumulator.used_bytes
            raise BufferExhausted(
                f"no room for a record in buffer.memory={self._config.buffer_memory} ({used} bytes used) "
                f"within max.block.ms={self._config.max_block_ms}"
            ) from None
        finally:
            self._room_waiters.remove(entry)
            # Soon, because the record that was let in takes its room only when this call has returned.
            asyncio.get_running_loop().call_soon(self._on_progress)

    def _on_progress(self) -> None:
        """Memory came free, or fates became known: let those waiters go on for whom it matters."""
        # The first in line leaves the queue itself, in the step in which it takes its room, so that nobody can take it before.
        if self._room_waiters:
            record, waiter = self._room_waiters[0]
            if not waiter.done() and (self._is_closed or self._accumulator.has_room(record)):
                waiter.set_result(None)
        if self._sender.transaction is not None:
            self._sender.transaction.on_progress()
        for appended_count, waiter in self._flush_waiters:
            if not waiter.done() and self._accumulator.is_settled_up_to(appended_count):
                waiter.set_result(None)
        self._update_urgency()

    def _update_urgency(self) -> None:
        self._sender.is_urgent = bool(self._room_waiters or self._flush_waiters)
        self._sender.wake()


def _own_cluster(config: ProducerConfig, runtime: ClientRuntime) -> Cluster:
    in_flight_max = config.max_in_flight_requests_per_connection
    return Cluster(config, runtime, creates_topics=True, in_flight_max=in_flight_max)


def _limits(config: ProducerConfig) -> AccumulatorLimits:
    return AccumulatorLimits(
        codec=config.compression_type,
        batch_size_bytes=config.batch_size,
        linger_ms=config.linger_ms,
        buffer_memory_bytes=config.buffer_memory,
        request_size_bytes_max=config.max_request_size,
        delivery_timeout_ms=config.delivery_timeout_ms,
        keeps_one_in_flight=config.max_in_flight_requests_per_connection == 1,
        is_transactional=config.transactional_id is not None,
    )

"""A copier: one process that reads the ledger as a member of a group and writes one copy of each record, exactly once.

The copies and the offsets up to which it has read are one transaction (KIP-447). When that is aborted, it goes back to where it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client import (
    ClientError,
    Committed,
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    LogTruncated,
    OffsetOutOfRange,
    Producer,
    ProducerConfig,
)
from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.transaction_history import Incarnation, Source
from tidelog.simulation.workloads.history import LEDGER, History
from tidelog.simulation.workloads.topics import COPIES_PARTITION
from tidelog.simulation.workloads.transacting import TIMEOUT_MS, Writing, producer_settings

_POLL_MS: Final = 800
_AFTER_AN_ERROR_S: Final = 0.3
_ABORTS_ONE_IN: Final = 10
_STALLS_ONE_IN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierPlan:
    """What a copier is told by whoever starts it."""

    bootstrap: str
    transactional_id: str
    consumer: Mapping[str, str]
    on_copied: Callable[[], None]


class Copier:
    """Lives until it is told to stop, or dies with its process."""

    def __init__(self, process: str, plan: CopierPlan, history: History, randomness: SimulatedRandomness) -> None:
        self.process = process
        self.positions: dict[TopicPartition, Offset] = {}
        """Up to where it has copied everything, of the partitions it owns."""
        self._plan = plan
        self._history = history
        self._randomness = randomness
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stopping.set()
        self._hurrying.set()

    def hurry(self) -> None:
        """Make no trouble any more."""
        self._hurrying.set()

    async def run(self, runtime: Runtime) -> None:
        """One producer and one consumer after the other, as long as faults break them."""
        while not self._stopping.is_set():
            try:
                settings = producer_settings(self._plan.bootstrap, self._plan.transactional_id, self._randomness)
                async with Producer.connect(ProducerConfig.from_properties(settings), runtime) as producer:
                    await self._session(producer, runtime)
            except (OffsetOutOfRange, LogTruncated) as error:
                self._history.protest(self.process, str(error))
                return
            except ClientError:
                await self._wait_ms(_AFTER_AN_ERROR_S * 1000)
            finally:
                self.positions.clear()

    async def _session(self, producer: Producer, runtime: Runtime) -> None:
        """What an earlier incarnation left open is ended before anybody asks where to begin."""
        transactions = self._history.transactions
        incarnation = transactions.incarnate(self._plan.transactional_id, self.process)
        await producer.init_transactions()
        transactions.ready(incarnation)
        config = ConsumerConfig.from_properties({**self._plan.consumer, "bootstrap.servers": self._plan.bootstrap})
        async with Consumer.connect(config, runtime) as consumer:
            consumer.group.subscribe([LEDGER], on_revoked=self._on_gone, on_lost=self._on_gone)
            while not self._stopping.is_set():
                records = await consumer.poll(timeout_ms=_POLL_MS)
                if records:
                    await self._copy(producer, consumer, records, incarnation)
                for topic_partition in consumer.assignment:
                    self.positions[topic_partition] = await consumer.position(topic_partition)

    async def _copy(
        self, producer: Producer, consumer: Consumer, records: list[ConsumedRecord], incarnation: Incarnation
    ) -> None:
        writing = Writing.begin(producer, self._history, incarnation)
        first, offsets = _offsets(records)
        try:
            for record in records:
                await writing.send(COPIES_PARTITION, source=Source(record.topic_partition, record.offset))
            if self._draws(_STALLS_ONE_IN):
                await self._wait_ms(self._randomness.between(0, 1.5 * TIMEOUT_MS))
            await producer.send_offsets_to_transaction(offsets, consumer.group.metadata())
        finally:
            writing.hear()
        if self._draws(_ABORTS_ONE_IN):
            await writing.abort()
            for topic_partition, offset in first.items():
                if topic_partition in consumer.assignment:
                    consumer.seek(topic_partition, offset)
            return
        await writing.commit()
        for _ in records:
            self._plan.on_copied()

    def _on_gone(self, partitions: list[TopicPartition]) -> None:
        for topic_partition in partitions:
            self.positions.pop(topic_partition, None)

    def _draws(self, one_in: int) -> bool:
        return not self._hurrying.is_set() and self._randomness.below(one_in) == 0

    async def _wait_ms(self, duration_ms: float) -> None:
        try:
            async with asyncio.timeout(duration_ms / 1000):
                await self._stopping.wait()
        except TimeoutError:
            return


def _offsets(records: list[ConsumedRecord]) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, Committed]]:
    """Where the records begin, and what is committed when they are copied."""
    first: dict[TopicPartition, Offset] = {}
    after: dict[TopicPartition, Committed] = {}
    for record in records:
        first.setdefault(record.topic_partition, record.offset)
        after[record.topic_partition] = Committed(record.offset + 1, record.leader_epoch)
    return first, after

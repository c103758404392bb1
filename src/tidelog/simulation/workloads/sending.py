"""What the writing workloads share: a producer that keeps several records under way and hears what becomes of each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.client import ClientClosed, ClientError, Producer, ProducerConfig, ProducerRefused, RecordMetadata
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History, is_promised
from tidelog.simulation.workloads.workload import PATIENCE, Repeating

_UNDER_WAY_MAX: Final = 60
_BURST_MAX: Final = 8
_DELIVERY: Final[Mapping[str, str]] = {**PATIENCE, "delivery.timeout.ms": "8000", "max.block.ms": "4000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How a workload writes: where to, with which settings of the producer, and how many records one producer writes at most."""

    partitions: Sequence[TopicPartition]
    settings: Mapping[str, str]
    pause_ms: tuple[float, float]
    session_records_max: int | None = None

    @property
    def is_acks_all(self) -> bool:
        """Whether an acknowledgement is a promise, if the topic keeps promises."""
        return self.settings.get("acks", "all") == "all"


class _UnderWay(NamedTuple):
    topic_partition: TopicPartition
    value: bytes
    future: asyncio.Future[RecordMetadata]


class Sending(Repeating):
    """Writes bursts of unique values. Every new producer has a name of its own, so that its numbers tell its order."""

    def __init__(
        self, name: str, bootstrap: str, history: History, randomness: SimulatedRandomness, writing: Writing
    ) -> None:
        super().__init__(name, randomness, pause_ms=writing.pause_ms)
        self.history = history
        self._writing = writing
        self._config = ProducerConfig.from_properties({"bootstrap.servers": bootstrap, **_DELIVERY, **writing.settings})
        self._session_number = 0
        self._under_way: deque[_UnderWay] = deque()

    async def session(self, runtime: Runtime) -> None:
        """One producer, from its first record to the fate of its last."""
        self._session_number += 1
        producer_name = f"{self.name}.{self._session_number}"
        if self._config.enable_idempotence:
            self.history.number(producer_name)
        try:
            async with Producer.connect(self._config, runtime) as producer:
                await self._write(producer, producer_name)
        finally:
            self._hear(producer_name)
            self._under_way.clear()

    async def _write(self, producer: Producer, producer_name: str) -> None:
        number = 0
        while not self.is_stopping and number < (self._writing.session_records_max or number + 1):
            for _ in range(1 + self.randomness.below(_BURST_MAX)):
                await self._send(producer, b"%s/%d" % (producer_name.encode(), number))
                number += 1
            self._hear(producer_name)
            if len(self._under_way) >= _UNDER_WAY_MAX:
                await asyncio.wait([self._under_way[0].future])
            await self.pause()

    async def _send(self, producer: Producer, value: bytes) -> None:
        choices = self._writing.partitions
        topic_partition = choices[self.randomness.below(len(choices))]
        try:
            future = await producer.send(topic_partition.topic, value, partition=topic_partition.index)
        except (ProducerRefused, ClientClosed):
            raise
        except ClientError:
            self.failures += 1
            return
        self._under_way.append(_UnderWay(topic_partition, value, future))

    def _hear(self, producer_name: str) -> None:
        """Note what became of the records whose fate is known, in the order they were sent."""
        waiting: deque[_UnderWay] = deque()
        for sent in self._under_way:
            if not sent.future.done():
                waiting.append(sent)
            elif sent.future.cancelled() or sent.future.exception() is not None:
                self.failures += 1
            else:
                self._acknowledged(sent, producer_name)
        self._under_way = waiting

    def _acknowledged(self, sent: _UnderWay, producer_name: str) -> None:
        self.steps += 1
        offset = sent.future.result().offset
        if offset >= 0:  # With acks=0 nobody says where the record is, or whether it is anywhere.
            promised = self._writing.is_acks_all and is_promised(sent.topic_partition.topic)
            self.history.acknowledge(
                sent.topic_partition, offset, sent.value, producer=producer_name, is_promised=promised
            )

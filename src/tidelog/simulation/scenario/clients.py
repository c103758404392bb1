"""What the clients of a scenario do: produce and consume; what comes of it is a sentence.

Whatever is begun `async` goes on beside the scenario until somebody waits for it by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, TypeAlias

from tidelog.client import (
    ClientError,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
    RecordMetadata,
)
from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import AcknowledgedStays
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.loop import OwnedTask

_PATIENCE_S: Final = 600.0
_PRODUCER: Final = {
    "enable.idempotence": "false",
    "linger.ms": "0",
    "request.timeout.ms": "30000",
    "delivery.timeout.ms": "30000",
}
_Work: TypeAlias = Callable[[Runtime], Coroutine[object, object, list[str]]]


class Clients:
    """The clients' machine."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.acknowledged = AcknowledgedStays()
        self._cluster = cluster
        self._under_way: dict[str, OwnedTask[list[str]]] = {}
        self._producers: dict[str, Producer] = {}

    def open_producer(self, name: str, settings: Mapping[str, str]) -> None:
        """A producer that stays connected and keeps its id and its order until the scenario ends."""
        config = ProducerConfig.from_properties({**self._properties(), **_PRODUCER, **settings})
        opened = asyncio.Event()

        async def story(runtime: Runtime) -> None:
            async with Producer.connect(config, runtime) as producer:
                self._producers[name] = producer
                opened.set()
                await asyncio.Event().wait()

        self._cluster.client.spawn(story(self._cluster.client.runtime))
        self._cluster.world.run(opened.wait())

    def produce(
        self, topic_partition: TopicPartition, values: Sequence[str], settings: Mapping[str, str], *, by: str | None
    ) -> _Work:
        """The work of sending records one after another, and what their producer was told of each."""

        async def story(runtime: Runtime) -> list[str]:
            if by is not None:
                return await self._send(self._producers[by], topic_partition, values)
            config = ProducerConfig.from_properties({**self._properties(), **_PRODUCER, **settings})
            try:
                async with Producer.connect(config, runtime) as producer:
                    return await self._send(producer, topic_partition, values)
            except ClientError as error:
                return [f"{value} failed: {_reason(error)}" for value in values]

        return story

    def consume(self, topic_partition: TopicPartition, start: Offset, *, isolation: str, waits: bool) -> _Work:
        """The work of reading from an offset to the end that the leader shows; if it `waits`, until there is a record at least."""

        async def story(runtime: Runtime) -> list[str]:
            config = ConsumerConfig.from_properties(
                {
                    **self._properties(),
                    "auto.offset.reset": "earliest",
                    "fetch.max.wait.ms": "500",
                    "isolation.level": isolation,
                }
            )
            try:
                async with Consumer.connect(config, runtime) as consumer:
                    return await _read(consumer, topic_partition, start, waits=waits)
            except ClientError as error:
                return [f"consumed nothing: {_reason(error)}"]

        return story

    def take(self, transactional_id: str, name: str, settings: Mapping[str, str]) -> list[str]:
        """A new producer takes a transactional id over."""
        ours = {"enable.idempotence": "true", "transactional.id": transactional_id, "max.block.ms": "20000"}
        self.open_producer(name, {**ours, **settings})
        return self._ended(name, f"took {transactional_id}", self._producers[name].init_transactions)

    def begin_transaction(self, name: str) -> None:
        """What this producer sends from now on is one transaction."""
        self._producers[name].begin_transaction()

    def end_transaction(self, name: str, *, is_committed: bool) -> list[str]:
        """Have a producer end its transaction."""
        producer = self._producers[name]
        if is_committed:
            return self._ended(name, "committed", producer.commit_transaction)
        return self._ended(name, "aborted", producer.abort_transaction)

    def _ended(self, name: str, what: str, call: Callable[[], Coroutine[object, object, object]]) -> list[str]:
        async def story(runtime: Runtime) -> list[str]:
            del runtime
            try:
                await call()
            except ClientError as error:
                return [f"{name} failed: {_reason(error)}"]
            return [f"{name} {what}"]

        return self._cluster.tell(story)

    def run(self, work: _Work) -> list[str]:
        """Do it now, and say what came of it."""
        return self._cluster.tell(work)

    def begin(self, name: str, work: _Work) -> None:
        """Do it beside the scenario, under a name."""
        self._under_way[name] = self._cluster.client.spawn(work(self._cluster.client.runtime))

    def is_known(self, name: str) -> bool:
        """Whether something was begun under that name."""
        return name in self._under_way

    def has_producer(self, name: str) -> bool:
        """Whether a producer of that name is open."""
        return name in self._producers

    def is_done(self, name: str) -> bool:
        """Whether it has ended."""
        return self._under_way[name].done()

    def outcome(self, name: str) -> list[str]:
        """What came of it."""
        return self._under_way[name].result()

    def _properties(self) -> dict[str, str]:
        return {"bootstrap.servers": self._cluster.bootstrap}

    async def _send(self, producer: Producer, topic_partition: TopicPartition, values: Sequence[str]) -> list[str]:
        topic, index = topic_partition
        try:
            sending = [(value, await producer.send(topic, value.encode(), partition=index)) for value in values]
        except ClientError as error:
            return [f"{value} failed: {_reason(error)}" for value in values]
        return [await self._told(value, topic_partition, future) for value, future in sending]

    async def _told(self, value: str, topic_partition: TopicPartition, future: asyncio.Future[RecordMetadata]) -> str:
        try:
            offset = (await future).offset
        except ClientError as error:
            return f"{value} failed: {_reason(error)}"
        if offset < 0:
            return f"{value} sent"
        self.acknowledged.acknowledge(topic_partition, offset, value.encode())
        return f"{value} acknowledged at offset {offset}"


async def _read(consumer: Consumer, topic_partition: TopicPartition, start: Offset, *, waits: bool) -> list[str]:
    consumer.assign([topic_partition])
    consumer.seek(topic_partition, start)
    end = (await consumer.end_offsets([topic_partition]))[topic_partition]
    found: dict[Offset, str] = {}
    async with asyncio.timeout(_PATIENCE_S):
        while await consumer.position(topic_partition) < end or (waits and not found):
            found |= {
                record.offset: (record.value or b"").decode(errors="replace")
                for record in await consumer.poll(timeout_ms=1_000)
            }
    return ["consumed " + (" ".join(value for _, value in sorted(found.items())) or "nothing")]


def _reason(error: ClientError) -> str:
    """The code of a refusal; of anything else its kind: both stay the same when wordings change."""
    code = getattr(error, "code", None)
    return type(error).__name__ if code is None else str(code.name)

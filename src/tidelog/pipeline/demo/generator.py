"""Sends the shop its products and its orders, so many a second, and never an order before all earlier ones are acknowledged but for a few."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final

from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, NewTopic, Producer, ProducerConfig
from tidelog.model import ErrorCode, TopicPartition
from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.orders import CATALOG, Order, OrderStream
from tidelog.pipeline.demo.processes import DemoFailed
from tidelog.runtime import Runtime

PARTITIONS: Final = {orders.ORDERS: 4, orders.PRODUCTS: 1, orders.CLEANED: 4, orders.REJECTED: 1, orders.REVENUE: 1}
_CHUNK_S: Final = 0.1
_CHUNK_MAX_S: Final = 0.5  # of event time: as far apart as partitions may be, see orders.WATERMARK_S
_RATE_OVER_MS: Final = 5_000.0

_PATIENCE: Final = {
    # Longer than any outage a demo makes: an order that was made is an order that is sent.
    "delivery.timeout.ms": "600000",
    "max.block.ms": "600000",
    "request.timeout.ms": "5000",
    "client.id": "tidelog-demo",
}


async def create_topics(bootstrap: str, runtime: Runtime) -> None:
    """Make the topics of the shop, if they are not there, and fill the one of products. Raises DemoFailed."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(
            name=name,
            partition_count=count,
            configs={"cleanup.policy": "compact"} if name == orders.PRODUCTS else {},
        )
        for name, count in PARTITIONS.items()
    ]
    async with Admin.connect(config, runtime) as admin:
        for result in await admin.create_topics(wanted):
            if result.code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                raise DemoFailed(f"topic {result.name} cannot be made: {result.code.name} {result.message or ''}")
    async with _producer(bootstrap, runtime) as producer:
        sent = [await producer.send(orders.PRODUCTS, each.to_json(), key=each.sku.encode()) for each in CATALOG]
        await asyncio.gather(*sent)


async def orders_so_far(bootstrap: str, runtime: Runtime) -> int:
    """How many orders the topic holds: of a demo that goes on with what it has, the number of the next one."""
    config = ConsumerConfig.from_properties({"bootstrap.servers": bootstrap})
    partitions = [TopicPartition(orders.ORDERS, index) for index in range(PARTITIONS[orders.ORDERS])]
    async with Consumer.connect(config, runtime) as consumer:
        return sum((await consumer.end_offsets(partitions)).values())


class Generator:
    """Sends the orders of a stream, from a number on, at the pace of the stream."""

    def __init__(self, stream: OrderStream, runtime: Runtime, *, first: int = 0) -> None:
        self._stream = stream
        self._clock = runtime.clock
        self._runtime = runtime
        self._first = first
        self._recent: list[tuple[float, int]] = []
        self.next_number = first
        """All orders before this one are acknowledged."""
        self.is_certain = True
        """Whether no order from there on was sent: false while some are under way, and when these were given up."""

    @property
    def sent(self) -> int:
        """How many were sent."""
        return self.next_number - self._first

    def sent_per_s(self, now_ms: float) -> float:
        """Those of the last seconds, by the second."""
        self._recent = [each for each in self._recent if each[0] >= now_ms - _RATE_OVER_MS]
        return sum(count for _, count in self._recent) * 1000 / _RATE_OVER_MS

    async def run(self, bootstrap: str, stopping: asyncio.Event) -> None:
        """Send until told to stop; what was begun is acknowledged then."""
        rate = self._stream.per_second
        started_ms = self._clock.monotonic_ms()
        async with _producer(bootstrap, self._runtime) as producer:
            while not stopping.is_set():
                due = self._first + int((self._clock.monotonic_ms() - started_ms) * rate / 1000)
                count = min(due - self.next_number, max(1, int(rate * _CHUNK_MAX_S)))
                if count > 0:
                    await self._send(
                        producer, map(self._stream.order, range(self.next_number, self.next_number + count))
                    )
                await _pause(stopping, max(_CHUNK_S, 1 / rate) if due - self.next_number < rate * _CHUNK_S else 0)

    async def send_closing(self, bootstrap: str) -> None:
        """Send the order that closes all windows."""
        async with _producer(bootstrap, self._runtime) as producer:
            await self._send(producer, [self._stream.closing(self.next_number)])

    async def _send(self, producer: Producer, some: Iterable[Order]) -> None:
        self.is_certain = False
        sent = [await producer.send(orders.ORDERS, order.value, key=order.key) for order in some]
        await asyncio.gather(*sent)
        self.next_number += len(sent)
        self.is_certain = True
        self._recent.append((self._clock.monotonic_ms(), len(sent)))


def _producer(bootstrap: str, runtime: Runtime) -> AbstractAsyncContextManager[Producer]:
    config = ProducerConfig.from_properties({"bootstrap.servers": bootstrap, **_PATIENCE})
    return Producer.connect(config, runtime)


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    """Wait, but not when told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return

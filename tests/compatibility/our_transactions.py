"""Our own client in transactions, behind the face of the stock ones, with either version of the protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Final, TypeVar

from tests.compatibility.transactional_client import Aborted, Fenced, Read, TransactionalClient
from tidelog.client import (
    ClientError,
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
    ProducerFenced,
    TransactionPending,
    TransactionRefused,
    WrongUse,
    offsets_after,
)
from tidelog.runtime.real import real_runtime

_CALL_S: Final = 90
_POLL_MS: Final = 200
T = TypeVar("T")


class OurTransactions(TransactionalClient):
    """A thread with a loop of its own, on which the clients live."""

    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms=timeout_ms)
        self._records: list[ConsumedRecord] = []
        self._consumer: Consumer | None = None
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._started.result(_CALL_S)
        try:
            self._ask(self._producer.init_transactions())
        except (Fenced, Aborted):
            self.close()
            raise

    async def _serve(self) -> None:
        self._loop, self._stop, self._join = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._joined = asyncio.Event()
        self._runtime = real_runtime()
        properties = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": str(self.timeout_ms),
            "max.block.ms": "30000",
            **self.settings,
        }
        async with AsyncExitStack() as stack:
            self._producer = await stack.enter_async_context(
                Producer.connect(ProducerConfig.from_properties(properties), self._runtime)
            )
            self._started.set_result(None)
            await self._join.wait()
            if not self._stop.is_set():
                self._consumer = await stack.enter_async_context(Consumer.connect(self._reading(), self._runtime))
                self._consumer.group.subscribe([self._topic])
                self._joined.set()
            await self._stop.wait()
        self._runtime.disk.close()

    def begin(self) -> None:
        async def begin() -> None:
            self._producer.begin_transaction()

        self._ask(begin())
        if self._consumer is not None:
            self._member_then = self._consumer.group.metadata()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        async def send() -> None:
            delivery = await self._producer.send(topic, value, partition=partition)
            delivery.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # seen: what failed is aborted

        self._ask(send())

    def flush(self) -> None:
        self._ask(self._producer.flush())

    def commit(self) -> None:
        self._ask(self._producer.commit_transaction())

    def abort(self) -> None:
        self._ask(self._producer.abort_transaction())

    def close(self) -> None:
        def stop() -> None:
            self._stop.set()
            self._join.set()

        self._loop.call_soon_threadsafe(stop)
        self._thread.join(_CALL_S)

    def join(self, topic: str, group_id: str) -> None:
        async def joined() -> None:
            self._join.set()
            await self._joined.wait()

        self._topic, self._group_id = topic, group_id
        self._ask(joined())

    def poll(self) -> list[Read]:
        found = self._ask(self._member.poll(timeout_ms=_POLL_MS))
        self._records += found
        return [Read(one.topic_partition.index, one.offset, one.value or b"") for one in found]

    def send_offsets(self) -> None:
        offsets = offsets_after(self._records)
        self._records.clear()
        self._ask(self._producer.send_offsets_to_transaction(offsets, self._member_then))

    def rewind(self) -> None:
        async def rewind() -> None:
            committed = await self._member.group.committed(self._member.assignment)
            for place, found in committed.items():
                self._member.seek(place, 0 if found is None else found.offset)

        self._records.clear()
        self._ask(rewind())

    @property
    def _member(self) -> Consumer:
        assert self._consumer is not None, "join first"
        return self._consumer

    def _reading(self) -> ConsumerConfig:
        return ConsumerConfig.from_properties(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self._group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
                "session.timeout.ms": "10000",
                "heartbeat.interval.ms": "500",
            }
        )

    def _ask(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result(_CALL_S)
        except (ProducerFenced, TransactionRefused, TransactionPending, WrongUse) as failure:
            raise Fenced(str(failure)) from failure
        except ClientError as failure:
            raise Aborted(str(failure)) from failure


class OurOldTransactions(OurTransactions):
    """As clients before Kafka 4.0 speak."""

    settings: ClassVar[dict[str, str]] = {"tidelog.transaction.version.max": "1"}

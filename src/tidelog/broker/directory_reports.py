"""How the controller hears of disks that fail while their broker lives on: Kafka's way, by notifications in the registry.

Of a log directory that failed: whoever is the controller asks that broker again about each of its replicas, and the answers say which of
them the disk took along. Of a replica in which rot was met, which Kafka does not know: the controller takes its standing from it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.replica_manager import ReplicaManager
from tidelog.model import ApiError, BrokerId, TopicPartition
from tidelog.registry import NoNode, Registry, RegistryError, RegistryUnavailable, Watch
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

PATH: Final = "/log_dir_event_notification"
_FAILURE: Final = 1
_DAMAGE: Final = 2
_RETRY_S: Final = 0.5
_LOOK_EVERY_S: Final = 30.0


OnDamaged: TypeAlias = Callable[[BrokerId, Sequence[TopicPartition]], Awaitable[None]]


class OfficeCalls(NamedTuple):
    """What the controller of this broker, if it is the controller, does about notifications."""

    is_held: Callable[[], bool]
    on_failed: Callable[[BrokerId], None]
    on_damaged: OnDamaged


class _Report(NamedTuple):
    """What a notification says; without partitions it is a whole directory that failed."""

    broker_id: BrokerId
    partitions: tuple[TopicPartition, ...] = ()


class DirectoryReports:
    """Writes the notifications of this broker and, while it is the controller, heeds those of all."""

    def __init__(
        self,
        broker_id: BrokerId,
        registry: Registry,
        replicas: ReplicaManager,
        office: OfficeCalls,
        forget: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._replicas = replicas
        self._office = office
        self._forget = forget  # that our failed directories were in order
        self._news = asyncio.Event()
        self._is_session_new = True
        self._watch: Watch | None = None

    def on_session(self) -> None:
        """The registry has given us another session: the watch of the former is gone."""
        self._is_session_new = True
        self._news.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write and heed until the block is left."""
        async with asyncio.TaskGroup() as tasks:
            running = (tasks.create_task(self._write()), tasks.create_task(self._heed()))
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def _write(self) -> None:
        content = json.dumps({"version": 1, "broker": self._broker_id, "event": _FAILURE}).encode()
        while True:
            await self._replicas.directory_failed.wait()
            self._forget()
            try:
                await self._registry.create(f"{PATH}/log_dir_event_", content, sequential=True)
                self._replicas.directory_failed.clear()
            except (RegistryError, RegistryUnavailable) as error:
                logger.warning("failed log directory not reported", extra=fields(reason=error))
                await asyncio.sleep(_RETRY_S)

    async def report_damage(self, topic_partition: TopicPartition) -> None:
        """Ask for leave to cut rot out of a replica. Raises RegistryError, RegistryUnavailable."""
        partitions = [[topic_partition.topic, topic_partition.index]]
        content = json.dumps(
            {"version": 1, "broker": self._broker_id, "event": _DAMAGE, "partitions": partitions}
        ).encode()
        await self._registry.create(f"{PATH}/log_dir_event_", content, sequential=True)

    async def _heed(self) -> None:
        while True:
            try:
                if self._is_session_new:
                    self._is_session_new = False
                    self._watch = await self._registry.watch(PATH, self._news.set)
                if self._office.is_held():
                    await self._take()
                await self._until_news(_LOOK_EVERY_S)
            except (RegistryError, RegistryUnavailable, ApiError) as error:
                logger.warning("failed log directories not heeded", extra=fields(reason=error))
                self._is_session_new = True
                await asyncio.sleep(_RETRY_S)

    async def _take(self) -> None:
        paths = [f"{PATH}/{name}" for name in await self._registry.children(PATH)]
        if not paths:
            return
        nodes = await self._registry.get_many(paths)
        for report in sorted({one for node in nodes if node is not None and (one := _report(node.data)) is not None}):
            if report.partitions:
                await self._office.on_damaged(report.broker_id, report.partitions)
                continue
            logger.warning("log directory of a broker failed", extra=fields(broker_id=report.broker_id))
            self._office.on_failed(report.broker_id)
        for path in paths:
            try:
                await self._registry.delete(path)
            except NoNode:
                continue

    async def _until_news(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()


def _report(data: bytes) -> _Report | None:
    try:
        said = json.loads(data)
        damaged = said.get("partitions", ()) if said.get("event") == _DAMAGE else ()
        return _Report(int(said["broker"]), tuple(TopicPartition(str(topic), int(index)) for topic, index in damaged))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

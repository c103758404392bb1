"""What this broker coordinates in one internal topic: whatever lies in the partitions that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar, cast

from tidelog.broker.internal_log import LedLog
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.controller import NO_BROKER
from tidelog.coordinator import Client, Machine
from tidelog.coordinator.placement import partition_of
from tidelog.coordinator.service import CoordinatorService
from tidelog.coordinator.shard import ShardLimits
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.records import Codec
from tidelog.runtime import Clock
from tidelog.server import RequestContext
from tidelog.wire.definition import Request, Response

R = TypeVar("R", bound=Response)


class CoordinationSurroundings(NamedTuple):
    """What every coordinator of a broker is given."""

    clock: Clock
    metadata: MetadataCache
    replicas: ReplicaManager


class Coordination:
    """Finds the partition of a key, and asks the machine that looks after it."""

    def __init__(
        self,
        topic: str,
        surroundings: CoordinationSurroundings,
        make: Callable[[], Machine],
        limits: ShardLimits,
        *,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.topic = topic
        self._metadata = surroundings.metadata
        self._replicas = surroundings.replicas
        self._codec = codec
        self._reigns: dict[int, LedLog] = {}
        self._service = CoordinatorService(topic, make, surroundings.clock, limits, self._on_errand)
        self.is_started = False
        """Whether anything is coordinated at all; not yet while the broker starts, and no longer while it stops."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look after what is led until the block is left; then whoever waits is refused."""
        async with self._service.running():
            self._replicas.tell_changes(self.topic, self._on_replica_changed)
            self.is_started = True
            try:
                yield
            finally:
                self.is_started = False

    # Requests.

    def locate(self, key: str) -> int | None:
        """The partition of the topic that holds a key; None while there is no such topic."""
        topic = self._metadata.topic(self.topic)
        return None if topic is None else partition_of(key, len(topic.partitions))

    def coordinator_of(self, key: str) -> BrokerId | None:
        """Who looks after a key, as far as this broker was told; None while nobody does."""
        topic, index = self._metadata.topic(self.topic), self.locate(key)
        leader = NO_BROKER if topic is None or index is None else topic.partitions[index].leader
        return None if leader == NO_BROKER else leader

    def ask(self, key: str, request: Request[R], context: RequestContext) -> R | Awaitable[R]:
        """The answer to a request about one key; a refusal in the words of its API where the key is not coordinated here."""
        return self._ask(key, request, self._client(context))

    def refusal(self, request: Request[R], context: RequestContext, code: ErrorCode) -> R:
        """How the machines would refuse a request that something else stands against."""
        return cast("R", self._service.refusal(request, self._client(context), code))

    def _ask(self, key: str, request: Request[R], client: Client) -> R | Awaitable[R]:
        index = self.locate(key) if self.is_started else None
        if index is None:
            return cast("R", self._service.refusal(request, client, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return cast("R | Awaitable[R]", self._service.ask(index, request, client))

    async def ask_all(self, request: Request[R], context: RequestContext) -> list[R]:
        """The answers of all partitions that are led here, in their order."""
        answers: list[R] = []
        for index in self._service.led:
            answer = self._service.ask(index, request, self._client(context))
            answers.append(cast("R", answer if isinstance(answer, Response) else await answer))
            await asyncio.sleep(0)
        return answers

    def _client(self, context: RequestContext) -> Client:
        """Who asks, as the machines are told."""
        return Client(context.client_id, f"/{context.peer.host}", context.version, context.connection)

    # News.

    def _on_errand(self, index: int, errand: object) -> None:
        """A machine wants something done elsewhere."""

    def _on_reign_over(self, index: int) -> None:
        """A partition is not led here any more, or was not for a while: what was to be done for it is somebody else's now."""

    def _on_replica_changed(self, topic_partition: TopicPartition) -> None:
        """A replica leads, follows, fails or goes. We may be in the middle of an append to it, so look a little later."""
        asyncio.get_running_loop().call_soon(self._look, topic_partition)

    def _look(self, topic_partition: TopicPartition) -> None:
        hosting, index = self._replicas.hosting, topic_partition.index
        partition = hosting.partition(topic_partition)
        if partition is not None and partition.is_leader and not hosting.is_offline(topic_partition):
            self._replicas.produce_waiters.watch(topic_partition, self._on_progress)
            log = LedLog(self._replicas, partition, partition.reign, self._codec)
            if self._reigns.get(index, log) != log:
                self._on_reign_over(index)
            self._reigns[index] = log
            self._service.lead(index, partition.leader_epoch, log)
            return
        self._replicas.produce_waiters.unwatch(topic_partition, self._on_progress)
        if self._reigns.pop(index, None) is not None:
            self._on_reign_over(index)
        if partition is None:
            self._service.forget(index)
        else:
            self._service.resign(index, partition.leader_epoch)

    def _on_progress(self, topic_partition: TopicPartition) -> None:
        self._service.on_progress(topic_partition.index)

"""Brings leaders' wishes about their ISR to the controller, and its verdicts back; looks for late followers from time to time.

Wishes gather while a request is under way and go into the next, one per broker at a time. A wish stays until the controller has decided or
its leader has been told something newer: until then the partition counts both ISRs, so nothing is lost by asking again (R13).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tidelog.client.backoff import Backoff
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.config import BrokerConfig
from tidelog.model import ApiError, BrokerEpoch, BrokerId, ErrorCode, TopicId, TopicPartition
from tidelog.partition import IsrProposal, Partition, PartitionEvent
from tidelog.partition.isr import Refusal, verdict
from tidelog.runtime import Runtime
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory
from tidelog.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

logger = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(initial_ms=50.0, max_ms=1_000.0)
_PARTITIONS_PER_REQUEST: Final = 1_000
_PARTITIONS_AT_ONCE: Final = 500


class LedReplicas(Protocol):
    """What is needed of the replica manager."""

    def partitions(self) -> Iterator[tuple[Partition, LogDirectory]]:
        """Every replica on a directory that works."""
        ...

    def perform(self, partition: Partition, events: list[PartitionEvent]) -> None:
        """Do what a change of a replica calls for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrSurroundings:
    """Who is around."""

    config: BrokerConfig
    runtime: Runtime
    replicas: LedReplicas
    ask_controller: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
    """Asks whoever is the controller at present, also this very broker. Raises ConnectionLost or UnsupportedApi, and ApiError
    NOT_CONTROLLER while nobody knows one."""
    broker_epoch: Callable[[], BrokerEpoch]


class _Key(NamedTuple):
    """A partition as the request names it."""

    topic_id: TopicId
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a key


class _Wish(NamedTuple):
    """A partition and what it asked for."""

    partition: Partition
    proposal: IsrProposal
    isr_before: tuple[BrokerId, ...]

    @property
    def is_stale(self) -> bool:
        """Whether the partition has been told something newer since."""
        leadership = self.partition.leadership
        return (
            leadership is None
            or not self.partition.is_leader
            or leadership.leader_epoch != self.proposal.leader_epoch
            or leadership.partition_epoch != self.proposal.partition_epoch
        )


class LeaderIsrChanges:
    """The wishes of one broker's leaders."""

    def __init__(self, surroundings: IsrSurroundings) -> None:
        self._around = surroundings
        self._wishes: dict[TopicPartition, _Wish] = {}
        self._has_wishes = asyncio.Event()
        self._failures = 0
        metrics = surroundings.runtime.metrics
        self._shrinks = metrics.counter("kafka_server_replicamanager_isrshrinks_total")
        self._expands = metrics.counter("kafka_server_replicamanager_isrexpands_total")
        self._refused = metrics.counter("kafka_server_replicamanager_failedisrupdates_total")

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Have the controller decide; a newer wish of the same partition replaces an older one."""
        self._wishes[partition.topic_partition] = _Wish(partition, proposal, partition.isr)
        self._has_wishes.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carry wishes and look for late followers until the block is left."""
        async with asyncio.TaskGroup() as tasks:
            running = (tasks.create_task(self._carry()), tasks.create_task(self._check()))
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def check_now(self) -> None:
        """Let every leader look for followers that have been late for too long."""
        clock = self._around.runtime.clock
        for number, (partition, _) in enumerate(self._around.replicas.partitions(), 1):
            if partition.is_leader:
                self._around.replicas.perform(partition, partition.check_isr(clock.monotonic_ms()))
            if number % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self._around.config.replica_lag_time_max_ms / 2000)
            await self.check_now()

    async def _carry(self) -> None:
        while True:
            await self._has_wishes.wait()
            wishes = self._take_wishes()
            if wishes and not await self._ask(wishes):
                self._failures += 1
                await asyncio.sleep(_BACKOFF.delay_ms(self._failures, self._around.runtime.randomness) / 1000)
            else:
                self._failures = 0
            if self._wishes:
                self._has_wishes.set()

    def _take_wishes(self) -> dict[_Key, _Wish]:
        self._has_wishes.clear()
        taken: dict[_Key, _Wish] = {}
        for key, wish in list(self._wishes.items()):
            topic_id = wish.partition.log.topic_id
            if len(taken) == _PARTITIONS_PER_REQUEST:
                break
            del self._wishes[key]
            if not wish.is_stale and topic_id is not None:
                taken[_Key(topic_id, key.index)] = wish
        return taken

    async def _ask(self, wishes: Mapping[_Key, _Wish]) -> bool:
        """Whether the controller has decided on all of them; what it has not is wished for again."""
        try:
            response = await self._around.ask_controller(self._request(wishes))
        except (ConnectionLost, UnsupportedApi, ApiError) as failure:
            if self._failures == 0:
                logger.info("controller not reached", extra=fields(reason=failure))
            self._wish_again(wishes.values())
            return False
        if response.error_code is not ErrorCode.NONE:
            self._wish_again(wishes.values())
            return False
        answered = {
            _Key(topic.topic_id, row.partition_index): row
            for topic in response.topics
            if topic.topic_id is not None
            for row in topic.partitions
        }
        undecided = [wish for key, wish in wishes.items() if not self._decide(wish, answered.get(key))]
        self._wish_again(undecided)
        return not undecided

    def _wish_again(self, wishes: Iterable[_Wish]) -> None:
        for wish in wishes:
            if not wish.is_stale:
                self._wishes.setdefault(wish.partition.topic_partition, wish)

    def _decide(self, wish: _Wish, row: AlteredPartition | None) -> bool:
        """Let the partition hear the verdict; whether there is one. What was told it meanwhile is newer, and beats any verdict."""
        if row is not None and row.error_code is ErrorCode.NONE:
            self._note(
                wish, row.isr
            )  # also if the partition has heard of it already: by LeaderAndIsr, which may be faster
        if wish.is_stale:
            return True
        if row is None:
            return False
        partition, monotonic_ms = wish.partition, self._around.runtime.clock.monotonic_ms()
        if row.error_code is ErrorCode.NONE:
            events = partition.on_isr_committed(
                isr=row.isr,
                partition_epoch=row.partition_epoch,
                leader_epoch=row.leader_epoch,
                monotonic_ms=monotonic_ms,
            )
        elif verdict(row.error_code) is Refusal.RETRY:
            return False
        else:
            self._refused.add()
            logger.info(
                "isr change refused",
                extra=fields(partition=partition.topic_partition, reason=row.error_code.name),
            )
            events = partition.on_isr_refused(row.error_code, monotonic_ms, proposal=wish.proposal)
        self._around.replicas.perform(partition, events)
        return True

    def _note(self, wish: _Wish, now: tuple[BrokerId, ...]) -> None:
        before = wish.isr_before
        gone, come = [one for one in before if one not in now], [one for one in now if one not in before]
        self._shrinks.add(bool(gone))
        self._expands.add(bool(come))
        _tell(wish, now, gone, come)

    def _request(self, wishes: Mapping[_Key, _Wish]) -> AlterPartitionRequest:
        own_id, own_epoch = self._around.config.broker_id, self._around.broker_epoch()
        topics: dict[TopicId, list[PartitionData]] = {}
        for key, wish in wishes.items():
            topics.setdefault(key.topic_id, []).append(_row(key.index, wish.proposal, own_id, own_epoch))
        return AlterPartitionRequest(
            broker_id=own_id,
            broker_epoch=own_epoch,
            topics=tuple(TopicData(topic_id=topic_id, partitions=tuple(rows)) for topic_id, rows in topics.items()),
        )


def _row(index: int, proposal: IsrProposal, own_id: BrokerId, own_epoch: BrokerEpoch) -> PartitionData:
    return PartitionData(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=tuple(
            BrokerState(broker_id=broker_id, broker_epoch=own_epoch if broker_id == own_id else broker_epoch)
            for broker_id, broker_epoch in proposal.isr
        ),
        partition_epoch=proposal.partition_epoch,
    )


def _tell(wish: _Wish, now: tuple[BrokerId, ...], gone: list[BrokerId], come: list[BrokerId]) -> None:
    for sentence, changed in (("isr shrunk", gone), ("isr expanded", come)):
        if changed:
            logger.info(
                sentence,
                extra=fields(
                    partition=wish.partition.topic_partition,
                    brokers=",".join(map(str, changed)),
                    isr=",".join(map(str, now)),
                ),
            )

"""Tells the partitions of a transaction how it ended, once that was decided: one marker in each.

What was decided must come true, so there is no giving up: leaders move, brokers die, replicas are too few, and it is tried again. An errand
ends when every partition has its marker, or can have none, and the machine has noted that, or when the partition of `__transaction_state`
it came from is led elsewhere: whoever leads it then reads the decision there and starts over.

The markers of many transactions for the same broker travel together: a request goes at once while few are under way, and what comes
meanwhile goes with the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.broker.internal_topics import TRANSACTIONS_TOPIC
from tidelog.broker.marker_errands import PendingErrand, Telling, Verdict, codes_of, request_of, verdict_of
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.controller import NO_BROKER
from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.requests import MarkersWrittenRequest, MarkersWrittenResponse
from tidelog.model import ApiError, BrokerId, ErrorCode, LeaderEpoch, ProducerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.runtime.logs import fields
from tidelog.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

logger = logging.getLogger(__name__)

LocalWriter: TypeAlias = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
"""Writes markers into partitions that this broker leads, as its handler of WriteTxnMarkers does."""

_BACKOFF: Final = Backoff(initial_ms=50.0, max_ms=2_000.0)
_GONE_AFTER_MS: Final = 5_000.0
"""How long a partition is looked for that is not among the topics we were told of: those of one telling come in several requests."""
_PARTITIONS_PER_REQUEST: Final = 500
_PARTITIONS_PER_SLICE: Final = 500
_WORTH_GIVING_WAY: Final = 10
"""Markers take longer than a change of threads. The producer was answered a moment ago, and with few cores it may be queued for ours."""
_WORTH_A_LINE: Final = frozenset({10, 100, 1_000})
"""After so many attempts an operator should know: about 10 seconds, 3 minutes, half an hour. Readers of what is committed wait as long."""
_IN_FLIGHT_MAX: Final = 5
"""Requests under way to one broker."""


class MarkerPeers(Protocol):
    """How other brokers are asked."""

    async def request(self, broker_id: BrokerId, request: WriteTxnMarkersRequest, /) -> WriteTxnMarkersResponse:
        """One request. Raises ConnectionLost or UnsupportedApi."""
        ...


class MarkerSurroundings(NamedTuple):
    """What the sender needs of its broker."""

    broker_id: BrokerId
    runtime: Runtime
    metadata: MetadataCache
    peers: MarkerPeers


class Principal(Protocol):
    """On whose behalf markers are sent."""

    def leader_epoch(self, index: int) -> LeaderEpoch | None:
        """The epoch under which markers are sent; None where the partition is not led here any more."""
        ...

    def on_markers_written(
        self, request: MarkersWrittenRequest
    ) -> MarkersWrittenResponse | Awaitable[MarkersWrittenResponse]:
        """Note that all partitions of a transaction were told."""
        ...


class _Place(NamedTuple):
    """One transactional id, where its transactions are decided, and the producer id they are written under."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a place
    transactional_id: str
    producer_id: ProducerId


def _place_of(errand: PendingErrand) -> _Place:
    return _Place(errand.index, errand.what.transactional_id, errand.what.producer.producer_id)


@dataclass(slots=True)
class _Line:
    """What waits for one broker, and how many requests are on their way to it."""

    waiting: deque[Telling] = field(default_factory=deque)
    in_flight: int = 0


class TransactionMarkers:
    """The errands of one broker. One per producer id: it has no second transaction before the first is complete."""

    def __init__(self, surroundings: MarkerSurroundings, principal: Principal) -> None:
        self._around = surroundings
        self._principal = principal
        self._errands: dict[_Place, PendingErrand] = {}
        self._lines: dict[BrokerId, _Line] = {}
        self._write: LocalWriter | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[None], None] = {}
        metrics = surroundings.runtime.metrics
        self._pending = metrics.gauge("tidelog_transaction_markers_pending")
        self._told = metrics.counter("tidelog_transaction_markers_total")

    @asynccontextmanager
    async def running(self, write: LocalWriter) -> AsyncIterator[None]:
        """Send until the block is left; what is under way then is left to whoever leads next."""
        self._write = write
        async with asyncio.TaskGroup() as self._tasks:
            try:
                yield
            finally:
                self._tasks = None
                self._errands.clear()
                self._lines.clear()
                for task in self._running:
                    task.cancel()

    @property
    def errand_count(self) -> int:
        """Transactions that are decided and not complete, as far as they are looked after here."""
        return len(self._errands)

    def send(self, index: int, errand: SendMarkers) -> None:
        """Look after an errand of a partition that is led here; an earlier one for the same producer id is over."""
        if self._tasks is None:
            return
        if len(errand.partitions) >= _WORTH_GIVING_WAY:
            self._around.runtime.clock.give_way()
        pending = PendingErrand(index, errand)
        self._errands[_place_of(pending)] = pending
        self._pending.set(len(self._errands))
        self._distribute(pending, iter(errand.partitions))

    def forget(self, index: int) -> None:
        """A partition is led elsewhere: its errands are not ours any more."""
        for place in [place for place in self._errands if place.index == index]:
            self._end(self._errands[place], "led elsewhere")

    # To the brokers.

    def _distribute(self, errand: PendingErrand, partitions: Iterator[TopicPartition]) -> None:
        """Give each partition to the line of its leader, some at a time."""
        if not self._is_current(errand):
            return
        lost: list[TopicPartition] = []
        lines: dict[BrokerId, _Line] = {}
        some = list(islice(partitions, _PARTITIONS_PER_SLICE))
        for topic_partition in some:
            leader = self._leader(errand, topic_partition)
            if leader is not None:
                lines[leader] = line = self._lines.setdefault(leader, _Line())
                line.waiting.append(Telling(errand, topic_partition))
            elif topic_partition in errand.left:
                lost.append(topic_partition)
        for leader, line in lines.items():
            self._pump(leader, line)
        if lost:
            self._again(errand, lost, "no leader is known")
        if len(some) == _PARTITIONS_PER_SLICE:
            asyncio.get_running_loop().call_soon(self._distribute, errand, partitions)
        self._look(errand)

    def _leader(self, errand: PendingErrand, topic_partition: TopicPartition) -> BrokerId | None:
        """Who leads a partition; None where nobody does. One that is gone for good is not waited for."""
        topic = self._around.metadata.topic(topic_partition.topic)
        state = None if topic is None else topic.partitions.get(topic_partition.index)
        if state is not None:
            errand.missing_since_ms.pop(topic_partition, None)
            is_live = state.leader != NO_BROKER and self._around.metadata.is_live(state.leader)
            return state.leader if is_live else None
        if not self._knows_topics(errand.index):
            return None
        now_ms = self._around.runtime.clock.monotonic_ms()
        if now_ms - errand.missing_since_ms.setdefault(topic_partition, now_ms) >= _GONE_AFTER_MS:
            logger.info("no marker for a deleted partition", extra=_known(errand, partition=topic_partition))
            self._done(errand, topic_partition)
        return None

    def _knows_topics(self, index: int) -> bool:
        """Whether what is missing is gone, and not merely untold: leaderships are told first, then topics, and our own among them."""
        metadata, epoch = self._around.metadata, self._principal.leader_epoch(index)
        topic = metadata.topic(TRANSACTIONS_TOPIC)
        own = None if topic is None else topic.partitions.get(index)
        return metadata.is_whole and own is not None and epoch is not None and own.leader_epoch >= epoch

    def _pump(self, leader: BrokerId, line: _Line) -> None:
        while line.waiting and line.in_flight < _IN_FLIGHT_MAX:
            tellings = [
                telling
                for telling in _taken(line.waiting, _PARTITIONS_PER_REQUEST)
                if self._is_current(telling.errand) and telling.topic_partition in telling.errand.left
            ]
            if tellings:
                line.in_flight += 1
                self._start(self._deliver(leader, line, tellings))

    async def _deliver(self, leader: BrokerId, line: _Line, tellings: list[Telling]) -> None:
        try:
            await self._tell(leader, tellings)
        finally:
            line.in_flight -= 1
        self._pump(leader, line)

    async def _tell(self, leader: BrokerId, tellings: list[Telling]) -> None:
        epochs: dict[int, LeaderEpoch] = {}
        for index in dict.fromkeys(telling.errand.index for telling in tellings):
            epoch = self._principal.leader_epoch(index)
            if epoch is None:
                self.forget(index)
            else:
                epochs[index] = epoch
        tellings = [telling for telling in tellings if telling.errand.index in epochs]
        if not tellings:
            return
        try:
            response = await self._ask(leader, request_of(tellings, epochs))
        except (ConnectionLost, UnsupportedApi, ApiError) as error:
            self._settle(((telling, None) for telling in tellings), f"broker {leader}: {error}")
        else:
            self._settle(codes_of(tellings, response), f"broker {leader} said nothing of it")

    async def _ask(self, leader: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if leader == self._around.broker_id and self._write is not None:
            return await self._write(request)
        return await self._around.peers.request(leader, request)

    def _settle(self, answers: Iterable[tuple[Telling, ErrorCode | None]], silence: str) -> None:
        """Take over what the leaders said; where one said nothing, `silence` is why."""
        again: dict[PendingErrand, list[TopicPartition]] = {}
        reasons: dict[PendingErrand, str] = {}
        told: dict[PendingErrand, None] = {}
        for (errand, topic_partition), code in answers:
            if not self._is_current(errand):
                continue
            verdict = Verdict.AGAIN if code is None else verdict_of(code)
            if verdict is Verdict.AGAIN:
                again.setdefault(errand, []).append(topic_partition)
                reasons[errand] = silence if code is None else code.name
            else:
                if verdict is not Verdict.TOLD and code is not None:
                    logger.error("no marker", extra=_known(errand, partition=topic_partition, reason=code.name))
                if verdict is Verdict.REFUSED:
                    errand.refused[topic_partition] = None
                self._done(errand, topic_partition)
                told[errand] = None
        for errand, partitions in again.items():
            self._again(errand, partitions, reasons[errand])
        for errand in told:
            self._look(errand)

    def _again(self, errand: PendingErrand, partitions: list[TopicPartition], reason: str) -> None:
        for topic_partition in partitions:
            errand.failures[topic_partition] = errand.failures.get(topic_partition, 0) + 1
        failures = max(errand.failures[topic_partition] for topic_partition in partitions)
        delay_ms = _BACKOFF.delay_ms(failures, self._around.runtime.randomness)
        level = logging.WARNING if failures in _WORTH_A_LINE else logging.DEBUG
        logger.log(level, "markers are sent again", extra=_known(errand, count=len(partitions), reason=reason))
        asyncio.get_running_loop().call_later(delay_ms / 1000, self._distribute, errand, iter(partitions))

    # Back to the machine.

    def _done(self, errand: PendingErrand, topic_partition: TopicPartition) -> None:
        errand.left.pop(topic_partition, None)
        errand.failures.pop(topic_partition, None)
        errand.missing_since_ms.pop(topic_partition, None)
        self._told.add()

    def _look(self, errand: PendingErrand) -> None:
        """When nothing is left, the machine is told, once."""
        if not errand.left and self._is_current(errand) and not errand.is_reported:
            errand.is_reported = True
            self._start(self._report(errand))

    async def _report(self, errand: PendingErrand) -> None:
        """Ask until the machine has noted it, or until that is somebody else's affair."""
        failures = 0
        request = errand.what.written(tuple(errand.refused))
        while self._is_current(errand) and self._principal.leader_epoch(errand.index) is not None:
            answer = self._principal.on_markers_written(request)
            response = answer if isinstance(answer, MarkersWrittenResponse) else await answer
            if response.code is ErrorCode.NONE:
                self._end(errand, "complete")
                return
            failures += 1
            logger.debug("a complete transaction is not noted yet", extra=_known(errand, reason=response.code.name))
            await asyncio.sleep(_BACKOFF.delay_ms(failures, self._around.runtime.randomness) / 1000)
        self._end(errand, "led elsewhere")

    # Inside.

    def _is_current(self, errand: PendingErrand) -> bool:
        return self._errands.get(_place_of(errand)) is errand

    def _end(self, errand: PendingErrand, reason: str) -> None:
        if self._is_current(errand):
            del self._errands[_place_of(errand)]
            self._pending.set(len(self._errands))
            logger.debug("markers sent no more", extra=_known(errand, left=len(errand.left), reason=reason))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._running[task] = None
        task.add_done_callback(self._running.pop)


def _taken(waiting: deque[Telling], count: int) -> Iterator[Telling]:
    for _ in range(min(count, len(waiting))):
        yield waiting.popleft()


def _known(errand: PendingErrand, **more: object) -> dict[str, dict[str, object]]:
    """What a line of the log says of an errand."""
    what = errand.what
    return fields(
        transactional_id=what.transactional_id,
        producer_id=what.producer.producer_id,
        producer_epoch=what.producer.producer_epoch,
        is_committed=what.is_committed,
        **more,
    )

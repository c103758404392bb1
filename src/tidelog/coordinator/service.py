"""The machines of one internal topic, one for each partition that this broker leads.

Leadership comes and goes with leader epochs. When it comes, the partition is read from its start to its end, a few milliseconds at a time,
a slice of each partition in turn, so that the loop serves others in between; until then requests are refused with COORDINATOR_LOAD_IN_PROGRESS.
When it goes, whoever waits is refused with NOT_COORDINATOR and looks for the new leader. What is told late of an earlier epoch is ignored.

Nothing in here knows what the machines are about.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tidelog.coordinator.internal_log import InternalLog, TransactionEnd
from tidelog.coordinator.loading import Loading
from tidelog.coordinator.machine import Client, Command, Machine, Moment, Reply, Token
from tidelog.coordinator.shard import Shard, ShardLimits
from tidelog.model import ApiError, ErrorCode, LeaderEpoch, Offset
from tidelog.records import CorruptBatch
from tidelog.runtime import Clock
from tidelog.runtime.logs import fields
from tidelog.wire.definition import Request, Response

logger = logging.getLogger(__name__)

_SLICE_MS: Final = 4.0
_READ_BYTES: Final = 1 << 18
"""What is read at a time: the log checks it before it hands it out, and of the smallest batches that takes a microsecond each."""
_RETRY_S: Final = 0.5
"""First pause after a load that failed; each is twice the one before. Mostly leadership goes elsewhere meanwhile."""
_RETRY_MAX_S: Final = 30.0
_TICK_S: Final = 0.001  # uvloop fires at once what is due earlier.


@dataclass(slots=True)
class _Led:
    """A partition that this broker leads; with a shard once it is loaded."""

    index: int
    leader_epoch: LeaderEpoch
    log: InternalLog
    shard: Shard | None = None
    has_missed_topics: bool = False  # They changed while it was loaded.
    is_settling: bool = False
    alarm: asyncio.TimerHandle | None = None
    alarm_ms: float = 0.0
    retry_s: float = _RETRY_S


class CoordinatorService:
    """Finds the shard of a request, and gives it time. Everything but loading happens where it is called."""

    def __init__(
        self,
        topic: str,
        make: Callable[[], Machine],
        clock: Clock,
        limits: ShardLimits,
        on_errand: Callable[[int, object], None] | None = None,
    ) -> None:
        self._topic = topic
        self._make = make
        self._clock = clock
        self._limits = limits
        self._on_errand = on_errand
        self._stranger = make()  # Words for refusals where there is no machine.
        self._led: dict[int, _Led] = {}
        self._seen_epochs: dict[int, LeaderEpoch] = {}
        self._waiting: dict[Token, asyncio.Future[Response]] = {}
        self._tokens = itertools.count(1)
        self._to_load: asyncio.Queue[tuple[_Led, Iterator[None]]] = asyncio.Queue()
        self._to_tell: list[_Led] = []  # Of topics that have changed.
        self._loader: asyncio.Task[None] | None = None
        self._is_running = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load what is led until the block is left; then everybody is refused."""
        self._is_running = True
        self._start_loader()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Refuse whoever waits, and whoever comes."""
        self._is_running = False
        for index in list(self._led):
            self._unload(index)
        if self._loader is not None:
            self._loader.cancel()

    def _start_loader(self) -> None:
        self._loader = asyncio.get_running_loop().create_task(self._load())
        self._loader.add_done_callback(self._on_loader_ended)

    def _on_loader_ended(self, loader: asyncio.Task[None]) -> None:
        """A machine that could not bear a record takes only its own partition out of service: the others are loaded by a new loader."""
        if not loader.cancelled():
            logger.critical(
                "coordinator cannot be loaded", exc_info=loader.exception(), extra=fields(topic=self._topic)
            )
            if self._is_running:
                self._start_loader()

    # Leadership.

    def lead(self, index: int, leader_epoch: LeaderEpoch, log: InternalLog) -> None:
        """Partition `index` is led from this epoch on; one that goes on being led under the same log keeps what it knows."""
        if not self._is_running or not self._is_news(index, leader_epoch):
            return
        led = self._led.get(index)
        if led is not None and led.log == log:
            led.leader_epoch = leader_epoch
            return
        self._unload(index)
        self._led[index] = _Led(index, leader_epoch, log)
        self._begin(self._led[index])

    def resign(self, index: int, leader_epoch: LeaderEpoch) -> None:
        """Partition `index` is not led here any more, as of this epoch."""
        if self._is_news(index, leader_epoch):
            self._unload(index)

    def forget(self, index: int) -> None:
        """Partition `index` is gone from here, whatever its epoch was; it may come back as another."""
        self._seen_epochs.pop(index, None)
        self._unload(index)

    def _is_news(self, index: int, leader_epoch: LeaderEpoch) -> bool:
        if leader_epoch < self._seen_epochs.get(index, leader_epoch):
            return False
        self._seen_epochs[index] = leader_epoch
        return True

    def _unload(self, index: int) -> None:
        led = self._led.pop(index, None)
        if led is None:
            return
        if led.alarm is not None:
            led.alarm.cancel()
        if led.shard is not None:
            self._deliver(led.shard.close(ErrorCode.NOT_COORDINATOR))
            logger.debug("coordinator unloaded", extra=fields(topic=self._topic, partition=index))

    # Loading.

    async def _load(self) -> None:
        """A slice of each in turn, so that a small partition does not wait for a large one."""
        while True:
            led, loading = await self._to_load.get()
            if self._led.get(led.index) is not led:
                continue
            try:
                if next(loading, self) is None:
                    self._to_load.put_nowait((led, loading))
            except (ApiError, CorruptBatch) as error:
                self._load_again(led, error)
            await asyncio.sleep(0)

    def _load_again(self, led: _Led, error: ApiError | CorruptBatch) -> None:
        """Not served with a hole in it: a replica without one can take over. Tried anew for as long as it is led here."""
        known = fields(topic=self._topic, partition=led.index, leader_epoch=led.leader_epoch, reason=error)
        logger.error("coordinator not loaded", extra=known)
        asyncio.get_running_loop().call_later(led.retry_s, self._begin, led)
        led.retry_s = min(2 * led.retry_s, _RETRY_MAX_S)

    def _begin(self, led: _Led) -> None:
        if self._led.get(led.index) is led:
            self._to_load.put_nowait((led, self._loading(led)))

    def _loading(self, led: _Led) -> Iterator[None]:
        """The work of loading a partition, cut into slices of a few milliseconds. Raises ApiError, CorruptBatch."""
        begun_ms = self._clock.monotonic_ms()
        machine = self._make()
        loading = Loading(machine, led.log.start_offset)
        while loading.next_offset < led.log.end_offset:
            slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
            before = loading.next_offset
            data = led.log.read(before, max_bytes=_READ_BYTES)
            if not data:
                break  # Compaction has taken what was between here and the end.
            for _ in loading.replay(data):
                if self._clock.monotonic_ms() >= slice_end_ms:
                    yield
                    slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
            if loading.next_offset == before:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"no batch at offset {before}")
            yield
        shard = Shard(machine, led.log, self._limits, partial(self._on_trouble, led))
        try:
            yield from self._in_slices(shard.on_loaded(self._now))
        except ApiError:
            raise
        except Exception:
            # A bug, which is told; but its groups are better served without some timers than not at all.
            led.shard = shard
            self._arm(led)
            raise
        led.shard = shard
        known = fields(
            topic=self._topic,
            partition=led.index,
            leader_epoch=led.leader_epoch,
            record_count=loading.record_count,
            passed_over=loading.passed_over,
            took_ms=round(self._clock.monotonic_ms() - begun_ms),
        )
        is_worth_a_line = loading.record_count or loading.passed_over
        logger.log(logging.INFO if is_worth_a_line else logging.DEBUG, "coordinator loaded", extra=known)
        self._after(led, ())
        if led.has_missed_topics and not any(each is led for each in self._to_tell):
            self._to_tell.append(led)
            if len(self._to_tell) == 1:
                asyncio.get_running_loop().call_soon(self._tell_next)

    def _in_slices(self, work: Iterator[None]) -> Iterator[None]:
        slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
        for _ in work:
            if self._clock.monotonic_ms() >= slice_end_ms:
                yield
                slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS

    # Requests.

    @property
    def led(self) -> list[int]:
        """The partitions led here, loaded or not, in order."""
        return sorted(self._led)

    @property
    def waiting_count(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    def is_loaded(self, index: int) -> bool:
        """Whether requests for the partition are decided here."""
        led = self._led.get(index)
        return led is not None and led.shard is not None

    def leader_epoch(self, index: int) -> LeaderEpoch | None:
        """Under which epoch the partition is led here; None if it is not."""
        led = self._led.get(index)
        return None if led is None else led.leader_epoch

    def refusal(self, request: Request[Any], client: Client, code: ErrorCode) -> Response:
        """How the machines would refuse a request."""
        return self._stranger.refusal(Command(0, request, client), code)

    def ask(self, index: int, request: Request[Any], client: Client) -> Response | Awaitable[Response]:
        """The machine's answer, at once where it need not wait."""
        led = self._led.get(index)
        if led is None:
            return self.refusal(request, client, ErrorCode.NOT_COORDINATOR)
        shard = led.shard
        if shard is None:
            return self.refusal(request, client, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        token = next(self._tokens)
        answer: Response | None = None
        replies = shard.ask(Command(token, request, client), self._now())
        for reply in replies:
            if reply.token == token:
                answer = reply.response
            else:
                self._deliver((reply,))
        self._after(led, ())
        if answer is not None:
            return answer
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        future.add_done_callback(partial(self._on_answered, shard, token))
        return future

    def end_transaction(self, index: int, end: TransactionEnd) -> Offset:
        """Write a marker into a partition that is led here, and let its machine know; the marker's offset. Raises ApiError.

        While the machine is being loaded it is refused: who wants it written tries again.
        """
        led = self._led.get(index)
        if led is None or led.shard is None:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self._topic}-{index} is not led here, or not loaded yet"
            )
        return led.shard.end_transaction(end, self._now())

    def _on_answered(self, shard: Shard, token: Token, _: asyncio.Future[Response]) -> None:
        if self._waiting.pop(token, None) is not None:
            shard.forget(token)  # Cancelled: the client is gone.

    def on_progress(self, index: int) -> None:
        """More of the partition may be committed. May be called from within an append: replies go a little later."""
        led = self._led.get(index)
        if led is not None and led.shard is not None and led.shard.is_waiting_for_commit and not led.is_settling:
            led.is_settling = True
            asyncio.get_running_loop().call_soon(self._settle, led)

    def on_topics_changed(self) -> None:
        """Topics came, went or grew: one machine after the other looks at them, with a look at the world in between."""
        is_under_way = bool(self._to_tell)
        self._to_tell = list(self._led.values())
        if self._to_tell and not is_under_way:
            asyncio.get_running_loop().call_soon(self._tell_next)

    def _tell_next(self) -> None:
        if not self._to_tell:
            return
        led = self._to_tell.pop()
        if self._to_tell:
            asyncio.get_running_loop().call_soon(self._tell_next)
        led.has_missed_topics = led.shard is None
        if led.shard is not None and self._led.get(led.index) is led:
            try:
                self._after(led, led.shard.on_topics_changed(self._now()))
            finally:
                self._arm(led)

    # Inside.

    def _on_trouble(self, led: _Led, what: object, error: Exception) -> None:
        """Not told to anybody who asks: a timer had rung, and rings again."""
        known = fields(topic=self._topic, partition=led.index, timer=type(what).__name__, reason=error)
        logger.error("coordinator cannot write what it decided", extra=known)

    def _settle(self, led: _Led) -> None:
        led.is_settling = False
        if led.shard is not None and self._led.get(led.index) is led:
            self._after(led, led.shard.settle())

    def _ring(self, led: _Led) -> None:
        """Do what is due, and the rest after a look at the world."""
        led.alarm = None
        shard = led.shard
        if shard is None or self._led.get(led.index) is not led:
            return
        slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
        try:
            for replies in shard.ring(self._now()):
                self._deliver(replies)
                self._run_errands(led)
                if self._clock.monotonic_ms() >= slice_end_ms:
                    break
        finally:
            self._arm(led)

    def _after(self, led: _Led, replies: Iterable[Reply]) -> None:
        self._deliver(replies)
        if led.shard is not None and led.shard.has_errand_due:
            asyncio.get_running_loop().call_soon(self._run_errands, led)  # Whoever asked is answered first.
        self._arm(led)

    def _run_errands(self, led: _Led) -> None:
        if led.shard is not None and self._on_errand is not None:
            for errand in led.shard.take_errands():
                self._on_errand(led.index, errand)

    def _deliver(self, replies: Iterable[Reply]) -> None:
        for token, response in replies:
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(response)

    def _arm(self, led: _Led) -> None:
        """Have the alarm ring when the shard wants it; an alarm that rings too early does no harm."""
        next_ms = None if led.shard is None else led.shard.next_ms
        if next_ms is None or (led.alarm is not None and led.alarm_ms <= next_ms):
            return
        if led.alarm is not None:
            led.alarm.cancel()
        delay_s = max((next_ms - self._clock.monotonic_ms()) / 1000, _TICK_S)
        led.alarm_ms = next_ms
        led.alarm = asyncio.get_running_loop().call_later(delay_s, self._ring, led)

    def _now(self) -> Moment:
        return Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

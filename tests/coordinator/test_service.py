"""The service: partitions come and go with their leader epochs, are loaded in slices, and everybody who asks is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.coordinator.counting import CLIENT, Bell, Count, Counted, CountingMachine, MemoryLog, add, batch_of
from tests.simulation.story import passed
from tidelog.coordinator import CoordinatorRecord, Decision, Moment, TimerChange, Written
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.coordinator.service import CoordinatorService
from tidelog.coordinator.shard import ShardLimits
from tidelog.model import ApiError, ErrorCode, ProducerIdentity
from tidelog.simulation.world import World
from tidelog.wire.definition import Response

LOADING = Counted(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
ELSEWHERE = Counted(error_code=ErrorCode.NOT_COORDINATOR)


class Room:
    """A service on the simulated loop, and the machines it made."""

    def __init__(self, make: Callable[[], CountingMachine] = CountingMachine) -> None:
        self.machines: list[CountingMachine] = []
        self._make = make
        self.service: CoordinatorService

    def tell(
        self,
        story: Callable[[Room], Coroutine[Any, Any, None]],
        *,
        commit_timeout_ms: float = 5_000,
        survived: tuple[type[Exception], ...] = (),
    ) -> None:
        """Run a story with the service running. It survives, and logs, exceptions of these types only."""
        with World() as world:
            world.expected = survived
            clock = world.node("broker").runtime.clock
            limits = ShardLimits(commit_timeout_ms=commit_timeout_ms)
            self.errands: list[tuple[int, object]] = []
            self.service = CoordinatorService(
                "__counts", self.make, clock, limits, lambda index, errand: self.errands.append((index, errand))
            )

            async def told() -> None:
                async with self.service.running():
                    await story(self)

            world.run(told())

    def make(self) -> CountingMachine:
        self.machines.append(self._make())
        return self.machines[-1]

    async def loaded(self, index: int) -> None:
        for _ in range(10_000):
            if self.service.is_loaded(index):
                return
            await passed(0.001)
        raise TimeoutError(f"partition {index} is not loaded")

    def ask(self, request: Count, index: int = 0) -> Response | Awaitable[Response]:
        return self.service.ask(index, request, CLIENT)

    async def answer(self, request: Count, index: int = 0) -> Response:
        answer = self.ask(request, index)
        return answer if isinstance(answer, Response) else await answer


def log_of(*values: int) -> MemoryLog:
    """A partition in which all of these were added, and committed."""
    log = MemoryLog()
    log.commits_at_once = True
    for value in values:
        log.append(add(value), now_ms=0)
    return log


def test_nobody_is_served_who_asks_a_broker_that_does_not_lead() -> None:
    async def story(room: Room) -> None:
        assert room.ask(Count()) == ELSEWHERE

    Room().tell(story)


def test_requests_are_refused_until_the_partition_is_loaded_and_then_know_all_of_it() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 3, log_of(1, 2, 3))
        assert room.ask(Count()) == LOADING
        await room.loaded(0)
        assert room.ask(Count()) == Counted(count=6)

    Room().tell(story)


def test_an_answer_comes_when_its_records_are_committed() -> None:
    async def story(room: Room) -> None:
        log = MemoryLog()
        room.service.lead(0, 3, log)
        await room.loaded(0)
        answer = asyncio.ensure_future(room.answer(Count(by=5)))
        await passed(1)
        assert not answer.done()
        log.committed_offset = 1
        room.service.on_progress(0)
        assert await answer == Counted(count=5)

    Room().tell(story)


def test_an_answer_whose_records_are_not_committed_in_time_is_a_refusal() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 3, MemoryLog())
        await room.loaded(0)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert await room.answer(Count(by=5)) == Counted(error_code=ErrorCode.REQUEST_TIMED_OUT)
        assert loop.time() - begun == pytest.approx(2.0, abs=0.01)

    Room().tell(story, commit_timeout_ms=2_000)


def test_whoever_waits_is_told_to_look_elsewhere_when_leadership_goes() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 3, log_of())
        await room.loaded(0)
        waiting = asyncio.ensure_future(room.answer(Count(until=5)))
        await passed(0.1)
        room.service.resign(0, 4)
        assert await waiting == ELSEWHERE
        assert room.ask(Count()) == ELSEWHERE

    Room().tell(story)


def test_whoever_waits_is_told_to_look_elsewhere_when_the_broker_stops() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 3, log_of())
        await room.loaded(0)
        waiting = asyncio.ensure_future(room.answer(Count(until=5)))
        await passed(0)
        room.service.stop()
        assert await waiting == ELSEWHERE
        room.service.lead(0, 4, log_of())
        assert room.ask(Count()) == ELSEWHERE

    Room().tell(story)


def test_what_is_told_late_of_an_earlier_epoch_is_ignored() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 5, log_of(1))
        await room.loaded(0)
        room.service.resign(0, 4)
        assert room.ask(Count()) == Counted(count=1)
        room.service.lead(0, 4, log_of(7))
        await passed(0.1)
        assert room.ask(Count()) == Counted(count=1)
        room.service.resign(0, 6)
        room.service.lead(0, 5, log_of(7))
        await passed(0.1)
        assert room.ask(Count()) == ELSEWHERE

    Room().tell(story)


def test_a_partition_that_comes_back_as_another_begins_with_any_epoch() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 5, log_of(1))
        await room.loaded(0)
        room.service.forget(0)
        room.service.lead(0, 0, log_of(2))
        await room.loaded(0)
        assert room.ask(Count()) == Counted(count=2)

    Room().tell(story)


def test_a_new_epoch_of_the_same_reign_disturbs_nobody() -> None:
    async def story(room: Room) -> None:
        log = log_of(1)
        room.service.lead(0, 5, log)
        await room.loaded(0)
        made = len(room.machines)
        waiting = asyncio.ensure_future(room.answer(Count(until=3)))
        await passed(0.1)
        room.service.lead(0, 6, log)
        assert room.ask(Count(by=2)) == Counted(count=3)
        assert await waiting == Counted(count=3)
        assert len(room.machines) == made

    Room().tell(story)


def test_leadership_that_goes_while_the_partition_is_loaded_ends_the_loading() -> None:
    class Interrupting(CountingMachine):
        def replay(self, record: CoordinatorRecord, written: Written) -> None:
            super().replay(record, written)
            if written.offset == 1_000:
                room.service.resign(0, 6)

    async def story(room: Room) -> None:
        large = MemoryLog()
        for _ in range(4):
            large.put(batch_of(*[b"1".rjust(1_000, b"0")] * 900))
        room.service.lead(0, 5, large)
        await passed(1)
        assert not room.service.is_loaded(0)
        assert max(machine.count for machine in room.machines) < 3_600
        room.service.lead(0, 7, log_of(1))
        await room.loaded(0)
        assert room.ask(Count()) == Counted(count=1)

    room = Room(Interrupting)
    room.tell(story)


def test_a_timer_rings_without_anybody_asking() -> None:
    class Ringing(CountingMachine):
        def __init__(self) -> None:
            super().__init__()
            self.bells = {"a": 1_000.0, "b": 2_500.0}

    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of())
        await room.loaded(0)
        await passed(2)
        assert room.ask(Count()) == Counted(count=1)
        await passed(1)
        assert room.ask(Count()) == Counted(count=2)

    Room(Ringing).tell(story)


def test_a_load_that_fails_is_tried_again_for_as_long_as_the_partition_is_led() -> None:
    async def story(room: Room) -> None:
        log = log_of(1)
        log.read_error = ErrorCode.CORRUPT_MESSAGE
        room.service.lead(0, 1, log)
        await passed(5)
        assert room.ask(Count()) == LOADING
        log.read_error = None
        await passed(5)
        assert room.ask(Count()) == Counted(count=1)

    Room().tell(story)


def test_a_partition_whose_last_records_were_compacted_away_is_loaded() -> None:
    class Compacted(MemoryLog):
        def read(self, offset: int, *, max_bytes: int) -> bytes:
            return super().read(offset, max_bytes=max_bytes) if offset < 2 else b""

    async def story(room: Room) -> None:
        log = Compacted()
        log.commits_at_once = True
        for value in (1, 2):
            log.append(add(value), now_ms=0)
        log.end_offset = log.committed_offset = 7
        room.service.lead(0, 1, log)
        await passed(5)
        assert room.ask(Count(by=4)) == Counted(count=7)
        nothing = Compacted()
        nothing.start_offset, nothing.end_offset, nothing.committed_offset = 2, 7, 7
        room.service.lead(1, 1, nothing)
        await passed(5)
        assert room.ask(Count(), index=1) == Counted(count=0)

    Room().tell(story)


def test_a_small_partition_does_not_wait_for_a_large_one() -> None:
    class Noting(CountingMachine):
        def on_loaded(self, now: Moment) -> Iterator[Decision]:
            counts.append(self.count)
            return super().on_loaded(now)

    async def story(room: Room) -> None:
        large = MemoryLog()
        for _ in range(4):
            large.put(batch_of(*[b"1".rjust(1_000, b"0")] * 900))
        room.service.lead(0, 1, large)
        room.service.lead(1, 1, log_of(5))
        await room.loaded(0)

    counts: list[int] = []
    Room(Noting).tell(story)
    assert counts == [5, 3_600]


def test_a_client_that_goes_is_forgotten() -> None:
    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of())
        await room.loaded(0)
        waiting = asyncio.ensure_future(room.answer(Count(until=5)))
        await passed(0.1)
        assert room.service.waiting_count == 1
        waiting.cancel()
        await passed(0.1)
        assert room.service.waiting_count == 0
        assert room.ask(Count(by=5)) == Counted(count=5)

    Room().tell(story)


def test_every_loaded_machine_hears_of_topics() -> None:
    async def story(room: Room) -> None:
        room.service.on_topics_changed()
        for index in range(3):
            room.service.lead(index, 1, log_of())
            await room.loaded(index)
        room.service.on_topics_changed()
        room.service.on_topics_changed()
        await passed(0.1)
        assert [room.ask(Count(), index) for index in range(3)] == [Counted(count=100)] * 3

    Room().tell(story)


def test_topics_that_change_while_a_partition_is_loaded_are_told_when_it_is() -> None:
    class Slow(CountingMachine):
        def on_loaded(self, now: Moment) -> Iterator[Decision]:
            room.service.on_topics_changed()
            yield from super().on_loaded(now)

    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of(5))
        room.service.lead(1, 1, log_of(7))
        await room.loaded(1)
        await passed(0.1)
        assert [room.ask(Count(), index) for index in range(2)] == [Counted(count=105), Counted(count=107)]

    room = Room(Slow)
    room.tell(story)


def test_nobody_is_served_before_a_machine_has_taken_over() -> None:
    class Watched(CountingMachine):
        def on_loaded(self, now: Moment) -> Iterator[Decision]:
            answers.append(room.ask(Count()))
            yield from super().on_loaded(now)

    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of(5))
        await room.loaded(0)
        answers.append(room.ask(Count()))

    answers: list[Response | Awaitable[Response]] = []
    room = Room(Watched)
    room.tell(story)
    assert answers == [LOADING, Counted(count=5)]


def test_a_machine_that_breaks_while_it_takes_over_serves_nevertheless() -> None:
    class Breaking(CountingMachine):
        def on_loaded(self, now: Moment) -> Iterator[Decision]:
            yield Decision()
            raise RuntimeError("broken")

    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of(5))
        await room.loaded(0)
        assert room.ask(Count()) == Counted(count=5)

    Room(Breaking).tell(story, survived=(RuntimeError,))


def test_a_machine_that_cannot_bear_a_record_takes_no_other_partition_along() -> None:
    class Fragile(CountingMachine):
        def replay(self, record: CoordinatorRecord, written: Written) -> None:
            if record.value == b"13":
                raise RuntimeError("thirteen")
            super().replay(record, written)

    async def story(room: Room) -> None:
        room.service.lead(0, 1, log_of(13))
        room.service.lead(1, 1, log_of(5))
        await room.loaded(1)
        assert room.ask(Count(), 1) == Counted(count=5)
        assert room.ask(Count(), 0) == LOADING

    Room(Fragile).tell(story, survived=(RuntimeError,))


class SlowClock:
    """Every look at it takes a tenth of a millisecond: a slice that looks often enough ends in time."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.longest_ms = 0.0
        self.turn_began_ms = 0.0

    def monotonic_ms(self) -> float:
        self.now_ms += 0.1
        self.longest_ms = max(self.longest_ms, self.now_ms - self.turn_began_ms)
        return self.now_ms

    def wall_ms(self) -> int:
        return int(self.now_ms)

    def give_way(self) -> None:
        """Nobody waits."""

    def turn(self) -> None:
        """The loop looks after others."""
        self.turn_began_ms = self.now_ms


@pytest.mark.parametrize("part", ["replaying", "taking over", "setting timers"])
def test_loading_never_holds_the_loop_for_long(part: str) -> None:
    class Working(CountingMachine):
        def replay(self, record: CoordinatorRecord, written: Written) -> None:
            clock.now_ms += 0.003  # What a record takes.

        def on_loaded(self, now: Moment) -> Iterator[Decision]:
            for number in range(1_000 if part == "taking over" else 0):
                clock.now_ms += 0.04  # What a group takes.
                yield Decision(timers=(TimerChange(Bell(str(number)), 1e9),))
            if part == "setting timers":
                yield Decision(timers=tuple(TimerChange(Bell(str(number)), 1e9) for number in range(100_000)))

    clock = SlowClock()
    log = MemoryLog()
    if part == "replaying":
        for _ in range(3):
            log.put(batch_of(*[b"1"] * 5_000))

    async def story() -> None:
        service = CoordinatorService("__counts", Working, clock, ShardLimits())
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def turn() -> None:
            clock.turn()
            done.set() if service.is_loaded(0) else loop.call_soon(turn)

        async with service.running():
            service.lead(0, 1, log)
            turn()
            await asyncio.wait_for(done.wait(), 60)

    asyncio.run(story())
    assert clock.now_ms > 40
    assert clock.longest_ms < 8


def test_errands_are_run_when_they_are_committed_and_never_after_the_leadership() -> None:
    async def story(room: Room) -> None:
        log = MemoryLog()
        room.service.lead(3, 1, log)
        await room.loaded(3)
        answer = room.ask(Count(by=5, errand="first"), 3)
        assert room.errands == []
        log.committed_offset = log.end_offset
        room.service.on_progress(3)
        assert not isinstance(answer, Response)
        await answer
        assert room.errands == [], "whoever asked is answered first"
        await passed(0.01)
        assert room.errands == [(3, "first")]
        assert room.service.leader_epoch(3) == 1
        room.ask(Count(by=5, errand="second"), 3)
        room.service.resign(3, 2)
        log.committed_offset = log.end_offset
        room.service.on_progress(3)
        await passed(0.01)
        assert room.errands == [(3, "first")]
        assert room.service.leader_epoch(3) is None

    Room().tell(story)


def test_a_marker_is_refused_until_the_machine_that_must_hear_of_it_is_loaded() -> None:
    end = TransactionEnd(producer=ProducerIdentity(7, 3), is_committed=False, coordinator_epoch=1)

    async def story(room: Room) -> None:
        with pytest.raises(ApiError):
            room.service.end_transaction(0, end)
        room.service.lead(0, 1, log_of(1, 2))
        with pytest.raises(ApiError):
            room.service.end_transaction(0, end)
        await room.loaded(0)
        assert room.service.end_transaction(0, end) == 2
        assert room.machines[-1].ended == [(7, False, 2)]

    Room().tell(story)

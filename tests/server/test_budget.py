"""The memory of requests in work: back-pressure, turns, and what is taken back from those who hold it without moving."""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.server.test_connection import EMPTY, Client, Handle, tell
from tests.simulation.story import passed
from tidelog.runtime import Address, Runtime
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Listener, Refusal, RequestContext
from tidelog.server.refusals import LINES_AT_ONCE, REFUSED_TOTAL, RefusalLog
from tidelog.simulation import SimulationFailed
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.api_versions import ApiVersionsResponse

KIBIBYTE = 1 << 10
LIMITS = ConnectionLimits(request_bytes_max=1 << 20, recordless_request_bytes_max=64 * KIBIBYTE)
ADDRESS = Address("server", 9092)


@asynccontextmanager
async def guarded(runtime: Runtime, handle: Handle, limits: GuardLimits) -> AsyncIterator[Guard]:
    def handler(context: RequestContext, _request: object) -> object:
        return handle(context.header.correlation_id)

    guard = Guard(limits, runtime)
    dispatcher = Dispatcher({ApiKey.API_VERSIONS: handler}, runtime.metrics, runtime.clock)
    listener = Listener("PLAINTEXT", ADDRESS, dispatcher, LIMITS, runtime, guard)
    async with listener.running():
        listener.serve()
        yield guard


def part_of_a_produce(size: int, sent: int) -> bytes:
    return struct.pack(">ih", size, ApiKey.PRODUCE) + bytes(sent - 2)


def refused(runtime: Runtime, kind: Refusal) -> float:
    return runtime.metrics.value(REFUSED_TOTAL, reason=kind.value)


async def forever(_number: int) -> ApiVersionsResponse:
    await passed(10_000)
    return EMPTY


def test_memory_follows_the_bytes_received_and_is_given_back() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits()) as guard:
            client = await runtime.network.connect(Client, ADDRESS)
            client.transport.write(part_of_a_produce(1 << 20, 1000))
            await passed(1)
            assert guard.budget.held_bytes == 1000
            client.transport.abort()
            await passed(1)
            assert (guard.budget.held_bytes, guard.admission.count) == (0, 0)

    tell(story)


def test_a_spent_budget_stops_all_reading_until_one_moves_on() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits(request_bytes_max=10 * KIBIBYTE)) as guard:
            holder = await runtime.network.connect(Client, ADDRESS)
            holder.transport.write(part_of_a_produce(1 << 20, 10 * KIBIBYTE))
            await passed(0.1)
            assert guard.budget.is_spent
            other = await runtime.network.connect(Client, ADDRESS)
            other.send(1)
            with pytest.raises(TimeoutError):
                await other.until(lambda: bool(other.answers), within_s=0.5)
            await other.until(lambda: other.answers == [1], within_s=5)
            assert (holder.is_lost, refused(runtime, Refusal.PRESSURE)) == (True, 1)

    tell(story)


def test_frames_that_keep_coming_get_through_one_by_one_however_many_they_are() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits(request_bytes_max=10 * KIBIBYTE)) as guard:
            senders = [await runtime.network.connect(Client, ADDRESS) for _ in range(10)]
            for sender in senders:
                sender.transport.write(part_of_a_produce(100 * KIBIBYTE, 8 * KIBIBYTE))
            await passed(0.1)
            assert guard.budget.is_spent
            for sender in senders:
                sender.transport.write(bytes(92 * KIBIBYTE))
            await passed(30)
            # Nobody serves Produce here, so each is refused for that, which shows that its frame was read to its end.
            assert refused(runtime, Refusal.UNSERVED) == 10
            assert refused(runtime, Refusal.PRESSURE) == 0
            assert guard.budget.held_bytes == 0

    tell(story)


def test_requests_queued_behind_one_that_waits_for_ever_do_not_hold_the_budget() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, forever, GuardLimits(request_bytes_max=KIBIBYTE)) as guard:
            hoarders = [await runtime.network.connect(Client, ADDRESS) for _ in range(20)]
            for hoarder in hoarders:
                hoarder.send(*range(10))
            await passed(0.1)
            assert guard.budget.is_spent
            await passed(15)
            assert not guard.budget.is_spent
            assert 0 < refused(runtime, Refusal.PRESSURE) < 20

    tell(story)


def test_when_too_many_requests_queue_a_connection_with_one_in_work_is_not_read_and_the_others_are() -> None:
    async def story(runtime: Runtime) -> None:
        def handle(number: int) -> object:
            return EMPTY if number >= 100 else forever(number)

        async with guarded(runtime, handle, GuardLimits(requests_max=8)) as guard:  # type: ignore[arg-type]
            busy = await runtime.network.connect(Client, ADDRESS)
            busy.send(*range(10))
            await passed(0.1)
            assert guard.budget.is_crowded
            busy.send(*range(10, 14))
            other = await runtime.network.connect(Client, ADDRESS)
            other.send(100)
            await other.until(lambda: other.answers == [100], within_s=5)
            assert guard.budget.held_requests == 9

    tell(story)


def test_a_request_sent_byte_by_byte_is_not_waited_for() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits()):
            slow = await runtime.network.connect(Client, ADDRESS)
            for byte in part_of_a_produce(1000, 50):
                slow.transport.write(bytes([byte]))
                await passed(5)
                if slow.is_lost:
                    break
            assert slow.is_lost
            assert refused(runtime, Refusal.SLOW_SENDER) == 1

    tell(story)


def test_the_newcomer_is_refused_and_a_place_that_becomes_free_is_given_again() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits(connections_max=2)) as guard:
            first, second = [await runtime.network.connect(Client, ADDRESS) for _ in range(2)]
            third = await runtime.network.connect(Client, ADDRESS)
            await third.until(lambda: third.is_lost)
            assert (guard.admission.count, refused(runtime, Refusal.TOO_MANY)) == (2, 1)
            first.transport.abort()
            await passed(1)
            fourth = await runtime.network.connect(Client, ADDRESS)
            for number, client in enumerate((second, fourth)):
                client.send(number)
                await client.until(lambda: bool(client.answers))  # noqa: B023  # awaited before the next turn

    tell(story)


def test_a_large_request_without_records_is_refused_by_its_first_bytes() -> None:
    async def story(runtime: Runtime) -> None:
        async with guarded(runtime, lambda _: EMPTY, GuardLimits()) as guard:
            for pieces in ([6], [4, 2], [5, 1], [4, 1, 1]):
                client = await runtime.network.connect(Client, ADDRESS)
                start = struct.pack(">ih", 65 * KIBIBYTE, ApiKey.METADATA)
                for size in pieces:
                    client.transport.write(start[:size])
                    start = start[size:]
                    await passed(1)
                await client.until(lambda: client.is_lost)  # noqa: B023  # awaited before the next turn
            assert (refused(runtime, Refusal.FRAME), guard.budget.held_bytes) == (4, 0)

    tell(story)


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(vars(record)["fields"])


def test_a_bug_has_its_line_whatever_floods_of_refusals_come() -> None:
    async def story(runtime: Runtime) -> None:
        log = RefusalLog(runtime.clock, runtime.metrics)
        for _ in range(10_000):
            log.note(Address("10.0.0.1", 1), Refusal.MALFORMED, "x")
        log.note(Address("10.0.0.2", 1), Refusal.BUG, "it broke", ArithmeticError("it broke"))

    with pytest.raises(SimulationFailed, match="ArithmeticError"):
        tell(story)


def test_a_flood_of_refusals_is_counted_and_told_in_few_lines() -> None:
    lines = Lines()

    async def story(runtime: Runtime) -> None:
        log = RefusalLog(runtime.clock, runtime.metrics)
        for _ in range(10_000):
            log.note(Address("10.0.0.1", 1), Refusal.MALFORMED, "x" * 10_000)
        log.tell_the_rest()
        assert len(lines.told) == LINES_AT_ONCE
        await passed(2)
        log.tell_the_rest()
        assert lines.told[-1] == {"count": 10_000 - LINES_AT_ONCE}
        assert len(str(lines.told[0]["reason"])) < 300
        assert refused(runtime, Refusal.MALFORMED) == 10_000

    logger = logging.getLogger("tidelog.server.refusals")
    logger.addHandler(lines)
    try:
        tell(story)
    finally:
        logger.removeHandler(lines)

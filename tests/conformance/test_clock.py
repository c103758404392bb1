"""What every clock promises."""

from __future__ import annotations

import asyncio

from tests.conformance.worlds import Twin


def test_monotonic_time_never_goes_back(twin: Twin) -> None:
    readings = [twin.runtime.clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)


def test_loop_time_is_monotonic_time(twin: Twin) -> None:
    async def difference_ms() -> float:
        return abs(asyncio.get_running_loop().time() * 1000 - twin.runtime.clock.monotonic_ms())

    assert twin.run(difference_ms()) < 1_000


def test_waiting_moves_both_clocks(twin: Twin) -> None:
    async def elapsed() -> tuple[float, int]:
        monotonic_ms, wall_ms = twin.runtime.clock.monotonic_ms(), twin.runtime.clock.wall_ms()
        try:
            async with asyncio.timeout(0.02):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            pass
        return twin.runtime.clock.monotonic_ms() - monotonic_ms, twin.runtime.clock.wall_ms() - wall_ms

    monotonic_ms, wall_ms = twin.run(elapsed())
    assert monotonic_ms >= 18
    assert wall_ms >= 18


def test_giving_way_ends_at_once_where_nobody_waits(twin: Twin) -> None:
    before_ms = twin.runtime.clock.monotonic_ms()
    twin.runtime.clock.give_way()
    assert twin.runtime.clock.monotonic_ms() - before_ms < 1_000


def test_wall_clock_is_an_integer_of_this_century(twin: Twin) -> None:
    wall_ms = twin.runtime.clock.wall_ms()
    assert isinstance(wall_ms, int)
    assert 1_600_000_000_000 < wall_ms < 4_000_000_000_000

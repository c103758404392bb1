"""A callback that holds the loop is found, named and counted; a loop that only waits is not."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import pytest
import uvloop

from tests.slow_callbacks import no_slow_callbacks
from tidelog.runtime.real import RealClock, RealMetrics
from tidelog.runtime.watchdog import LATE_MS, watch_loop
from tidelog.simulation import World

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def hold_the_loop(duration_ms: float) -> None:
    threading.Event().wait(duration_ms / 1000)


async def idle(duration_ms: float) -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(duration_ms / 1000, done.set)
    await done.wait()


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_callback_that_blocks_is_found_with_its_stack(new_loop: NewLoop) -> None:
    async def run() -> None:
        with no_slow_callbacks():
            await idle(30)
            hold_the_loop(300)
            await idle(30)

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(AssertionError, match="in hold_the_loop"):
        runner.run(run())


@pytest.mark.timed
@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_that_waits_is_not_slow(new_loop: NewLoop) -> None:
    async def run() -> None:
        with no_slow_callbacks():
            await idle(200)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS.keys())
def test_the_heartbeat_counts_a_held_loop(new_loop: NewLoop, caplog: pytest.LogCaptureFixture) -> None:
    metrics = RealMetrics()

    async def run() -> None:
        watch = asyncio.create_task(watch_loop(RealClock(), metrics))
        await idle(60)
        hold_the_loop(LATE_MS + 150)
        await idle(60)
        watch.cancel()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
    assert metrics.value("tidelog_loop_late_total") >= 1
    assert metrics.value("tidelog_loop_lag_ms") >= 2
    assert "loop was held up" in caplog.text


def test_the_heartbeat_is_never_late_in_simulation() -> None:
    with World(seed=1) as world:
        runtime = world.node("broker-1").runtime
        world.node("broker-1").start(lambda runtime: watch_loop(runtime.clock, runtime.metrics))
        world.run_for_ms(10_000)
        assert runtime.metrics.value("tidelog_loop_late_total") == 0
        assert runtime.metrics.value("tidelog_loop_lag_ms") > 100


def test_the_test_machine_counts_starvation() -> None:
    assert not os.path.exists("/proc/self") or os.path.exists(f"/proc/self/task/{threading.get_native_id()}/schedstat")

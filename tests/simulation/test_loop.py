"""The simulated loop keeps what asyncio promises, moves time by itself, and refuses what cannot be repeated."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress

import pytest

from tidelog.simulation import SimulatedDisk, SimulatedLoop, SimulatedRandomness, SimulationFailed
from tidelog.simulation.disk_executor import SimulatedExecutor
from tidelog.simulation.failures import Deadlock, Forbidden, Livelock
from tidelog.simulation.loop import Process


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    made = SimulatedLoop()
    yield made
    made.close()


async def pause(seconds: float) -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


def test_an_hour_passes_at_once(loop: SimulatedLoop) -> None:
    loop.run(pause(3_600))
    assert loop.time() == 3_600


def test_timeouts_and_task_groups_work(loop: SimulatedLoop) -> None:
    async def run() -> list[float]:
        ended: list[float] = []

        async def worker(seconds: float) -> None:
            await pause(seconds)
            ended.append(loop.time())

        with suppress(TimeoutError):
            async with asyncio.timeout(2.5), asyncio.TaskGroup() as group:
                for seconds in (3, 1, 2):
                    group.create_task(worker(seconds))
        return ended

    assert loop.run(run()) == [1, 2]
    assert loop.time() == 2.5


def test_timers_of_one_instant_fire_in_the_order_they_were_set(loop: SimulatedLoop) -> None:
    fired: list[int] = []
    for number in range(50):
        loop.call_at(1.0, fired.append, number)
    loop.run(pause(2))
    assert fired == list(range(50))


def test_a_cancelled_timer_does_not_hold_up_the_end_of_time(loop: SimulatedLoop) -> None:
    for _ in range(5_000):
        loop.call_later(1_000, print).cancel()
    loop.run(pause(1))
    assert loop.time() == 1


def test_one_process_is_first_in_first_out_and_processes_interleave_by_seed() -> None:
    def order(seed: int) -> list[tuple[str, int]]:
        loop = SimulatedLoop(SimulatedRandomness(seed))
        ran: list[tuple[str, int]] = []
        for process in (Process("a", 1), Process("b", 1)):
            for number in range(10):
                loop.call_soon(ran.append, (process.name, number), context=process.context)
        loop.run(pause(1))
        loop.close()
        return ran

    orders = [order(seed) for seed in range(5)]
    assert order(0) == orders[0]
    assert len({tuple(each) for each in orders}) == 5
    for each in orders:
        assert [number for name, number in each if name == "a"] == list(range(10))


def test_a_killed_process_runs_no_finally_however_its_garbage_is_collected(loop: SimulatedLoop) -> None:
    ran: list[str] = []
    process = Process("a", 1)

    async def stubborn() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("finally")

    async def run() -> None:
        loop.create_task(stubborn(), context=process.context.copy())
        await pause(1)
        loop.kill(process)
        gc.collect()
        await pause(1)
        gc.collect()

    loop.run(run())
    assert ran == []


def killed_while_its_finally_would_wait() -> list[str]:
    loop, process, reached = SimulatedLoop(), Process("a", 1), list[str]()

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.create_task(asyncio.Event().wait())
            reached.append("after the wait")

    async def outer() -> None:
        async with AsyncExitStack() as parts, asyncio.TaskGroup() as group:
            parts.push_async_callback(asyncio.Event().wait)
            group.create_task(inner())
            await inner()

    async def run() -> None:
        loop.create_task(outer(), context=process.context.copy())
        await pause(1)
        loop.kill(process)

    loop.run(run())
    loop.close()
    return reached


def test_the_dead_are_let_go_in_silence_even_if_they_would_wait_in_a_finally() -> None:
    """Found by the broker, whose exit stack awaits: thrown away, its coroutines complained as unraisable exceptions."""
    assert killed_while_its_finally_would_wait() == []
    gc.collect()


@pytest.mark.parametrize("is_busy", [False, True])
def test_who_would_come_next_anyway_runs_at_once_and_else_in_turn(loop: SimulatedLoop, is_busy: bool) -> None:
    said: list[str] = []
    process, other = Process("broker-1", 1), Process("broker-2", 1)

    def arrive() -> None:
        if is_busy:
            loop.call_soon(said.append, "somebody else", context=other.context)
        loop.run_next(lambda: said.append("delivered"), process.context)
        said.append("arrived")

    loop.call_at(1.0, arrive)
    loop.run(pause(2))
    assert (said.index("delivered") < said.index("arrived")) is not is_busy


@pytest.mark.parametrize("state", ["dead", "paused"])
def test_who_is_dead_or_stands_still_does_not_run_at_once(loop: SimulatedLoop, state: str) -> None:
    said: list[str] = []
    process = Process("broker-1", 1)
    if state == "dead":
        loop.kill(process)
    else:
        loop.pause(process)
    loop.call_at(1.0, lambda: loop.run_next(lambda: said.append("ran"), process.context))
    loop.run(pause(2))
    assert said == []
    loop.resume(process)
    loop.run(pause(1))
    assert said == (["ran"] if state == "paused" else [])


def test_timers_of_a_killed_process_do_not_fire(loop: SimulatedLoop) -> None:
    fired: list[int] = []
    process = Process("a", 1)
    loop.call_at(1.0, fired.append, 1, context=process.context)
    loop.call_at(3.0, fired.append, 3, context=process.context)
    loop.call_at(2.0, loop.kill, process)
    loop.run(pause(4))
    assert fired == [1]


def test_a_paused_process_catches_up_in_order_when_resumed(loop: SimulatedLoop) -> None:
    fired: list[tuple[int, float]] = []
    process = Process("a", 1)

    def note(number: int) -> None:
        fired.append((number, loop.time()))

    for number in (1, 2, 3):
        loop.call_at(number, note, number, context=process.context)
    loop.call_at(1.5, loop.pause, process)
    loop.call_at(10, loop.resume, process)
    loop.run(pause(20))
    assert fired == [(1, 1), (2, 10), (3, 10)]


@pytest.mark.slow
def test_callbacks_that_wake_each_other_for_ever_are_a_livelock(loop: SimulatedLoop) -> None:
    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(Livelock, match=r"200000 callbacks at 0\.000000 s"):
        loop.run(pause(1))


def test_waiting_for_nothing_is_a_deadlock(loop: SimulatedLoop) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        loop.run(wait())


def test_a_task_that_dies_unheard_fails_the_run(loop: SimulatedLoop) -> None:
    async def dies() -> None:
        raise ValueError("unheard")

    async def run() -> None:
        task = loop.create_task(dies())
        await pause(1)
        del task
        await pause(1)

    with pytest.raises(SimulationFailed, match="unheard") as failure:
        loop.run(run())
    assert isinstance(failure.value.__cause__, ValueError)


def test_a_task_that_dies_is_named_with_the_last_lines_of_its_traceback(loop: SimulatedLoop) -> None:
    async def dies() -> None:
        raise ValueError("unheard")

    async def run() -> None:
        loop.create_task(dies(), name="the flusher")
        await pause(1)

    with pytest.raises(SimulationFailed, match=r"the flusher, which ran .*dies: .*test_loop.py:\d+ in dies"):
        loop.run(run())


def test_a_task_that_dies_and_is_held_fails_the_run_at_its_end(loop: SimulatedLoop) -> None:
    async def dies() -> None:
        raise ValueError("held")

    task = loop.run(started(dies()))
    loop.run(pause(1))
    with pytest.raises(SimulationFailed, match=r"nobody has asked what .*dies died of: ValueError\('held'\)"):
        loop.fail_unheard()
    assert task.done()


def test_a_task_that_dies_and_is_held_fails_the_run_when_its_process_is_killed(loop: SimulatedLoop) -> None:
    async def dies() -> None:
        raise ValueError("held")

    process = Process("broker-1", 1)
    task = loop.create_task(dies(), context=process.context)
    loop.run(pause(1))
    loop.kill(process)
    with pytest.raises(SimulationFailed, match=r"broker-1#1 .*held"):
        loop.run(pause(1))
    assert task.done()


async def started(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


def test_a_callback_that_raises_fails_the_run_at_once(loop: SimulatedLoop) -> None:
    loop.call_at(1.0, int, "no number")
    with pytest.raises(SimulationFailed, match="no number"):
        loop.run(pause(10))
    assert loop.time() == 1


def test_work_of_one_worker_takes_time_and_keeps_its_order(loop: SimulatedLoop) -> None:
    worker = SimulatedExecutor(lambda: 5.0)
    done: list[tuple[int, float]] = []

    def note(number: int) -> None:
        done.append((number, loop.time()))

    async def run() -> None:
        await asyncio.gather(*(loop.run_in_executor(worker, note, number) for number in range(10)))

    loop.run(run())
    assert [number for number, _ in done] == list(range(10))
    times = [moment for _, moment in done]
    assert times == sorted(times)
    assert times[0] > 0


def test_a_stalled_directory_delays_its_own_thread_only(loop: SimulatedLoop) -> None:
    disk = SimulatedDisk()

    async def finished(log_dir: str) -> float:
        await loop.run_in_executor(disk.threads(log_dir), disk.listdir, "/")
        return loop.time()

    async def run() -> tuple[float, float]:
        disk.stall("/slow", duration_ms=30_000)
        return await asyncio.gather(finished("/slow"), finished("/fast"))

    slow, fast = loop.run(run())
    assert slow > 30
    assert fast < 1


FORBIDDEN = {
    "default executor": lambda loop: loop.run_in_executor(None, print),
    "socket server": lambda loop: loop.create_server(asyncio.Protocol, "127.0.0.1", 0),
    "socket connection": lambda loop: loop.create_connection(asyncio.Protocol, "127.0.0.1", 1),
    "name lookup": lambda loop: loop.getaddrinfo("localhost", 1),
    "subprocess": lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
    "signal": lambda loop: loop.add_signal_handler(2, print),
    "reader": lambda loop: loop.add_reader(0, print),
    "raw socket": lambda loop: loop.sock_recv(socket.socket.__new__(socket.socket), 1),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_real_world_is_out_of_reach(loop: SimulatedLoop, name: str) -> None:
    with pytest.raises(Forbidden):
        FORBIDDEN[name](loop)


def test_a_thread_that_reaches_in_is_refused(loop: SimulatedLoop) -> None:
    refused: list[Exception] = []

    def reach_in() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except Forbidden as error:
            refused.append(error)

    thread = threading.Thread(target=reach_in)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_task_names_repeat_with_every_new_loop() -> None:
    async def own_name() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    names = []
    for _ in range(2):
        loop = SimulatedLoop()
        names.append(loop.run(own_name()))
        loop.close()
    assert names[0] == names[1]

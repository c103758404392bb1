"""Parked requests: woken by what they wait on, by nothing else, and never forgotten."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from tidelog.broker.waiters import Waiters


async def _waiting(waiters: Waiters[str], keys: list[str], timeout_s: float = 60) -> bool:
    with waiters.parked(keys) as waiter:
        return await waiter.woken(timeout_s=timeout_s)


async def _parked(waiters: Waiters[str], keys: list[str]) -> asyncio.Task[bool]:
    """A task that waits on the keys. It has begun when a callback scheduled after it runs."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(_waiting(waiters, keys))
    begun = loop.create_future()
    loop.call_soon(begun.set_result, None)
    await begun
    assert waiters.count == 1
    return task


def test_a_wake_between_the_look_and_the_wait_is_not_missed() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        with waiters.parked(["a"]) as waiter:
            waiters.wake("a")
            assert await waiter.woken(timeout_s=0)
            assert not await waiter.woken(timeout_s=0)

    asyncio.run(story())


def test_a_waiter_wakes_on_any_of_its_keys() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        task = await _parked(waiters, ["a", "b"])
        waiters.wake("c")
        waiters.wake("b")
        assert await task
        assert waiters.count == 0

    asyncio.run(story())


def test_a_waiter_whose_time_is_up_is_told_so() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        assert not await _waiting(waiters, ["a"], 0.001)
        assert waiters.count == 0

    asyncio.run(story())


def test_a_cancelled_waiter_leaves_nothing_behind() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        task = await _parked(waiters, ["a"])
        task.cancel()
        await asyncio.wait([task])
        waiters.wake("a")
        assert (waiters.count, waiters.is_empty) == (0, True)

    asyncio.run(story())


def test_a_wait_of_less_than_a_millisecond_ends_on_uvloop_too() -> None:
    """uvloop gives a timer below a millisecond as a plain handle, which does not know its time: long polls died of it at their end."""
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(_waiting(Waiters(), ["x"], 0.0004))


@pytest.mark.parametrize("crowd", [99, 100, 101, 1000])
def test_a_crowd_is_woken_to_the_last_while_others_get_a_turn(crowd: int) -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        woken: list[int] = []

        async def wait(number: int) -> None:
            assert await _waiting(waiters, ["a"])
            woken.append(number)

        async with asyncio.TaskGroup() as tasks:
            for number in range(crowd):
                tasks.create_task(wait(number))
            begun = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(begun.set_result, None)
            await begun
            waiters.wake("a")
        assert sorted(woken) == list(range(crowd))
        assert waiters.is_empty

    asyncio.run(story())


def test_a_waiter_that_says_when_it_is_due_is_left_alone_until_then() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        is_due = False
        with waiters.parked(["a"], lambda: is_due) as waiter:
            waiters.wake("a")
            assert not await waiter.woken(timeout_s=0)
            is_due = True
            waiters.wake("a")
            assert await waiter.woken(timeout_s=0)

    asyncio.run(story())


def test_a_crowd_of_which_one_is_due_is_looked_at_to_the_last() -> None:
    async def story() -> None:
        waiters: Waiters[str] = Waiters()
        with ExitStack() as stack:
            for _ in range(250):
                stack.enter_context(waiters.parked(["a"], lambda: False))
            last = stack.enter_context(waiters.parked(["a"], lambda: True))
            waiters.wake("a")
            assert await last.woken(timeout_s=60)

    asyncio.run(story())

"""Several processes, one file: what the living learn of the killed and the stopped, and what the stopped learn when they go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest

from tests.registry.holder import COUNT
from tidelog.registry import Node
from tidelog.registry.sqlite import SqliteRegistry

HOLDER = Path(__file__).with_name("holder.py")
pytestmark = pytest.mark.slow


class Holder:
    """A process with a session and an ephemeral node of its name."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process

    @classmethod
    async def start(cls, path: Path, name: str, timeout_ms: int) -> Self:
        command = [sys.executable, str(HOLDER), str(path), name, str(timeout_ms)]
        pipe = asyncio.subprocess.PIPE
        holder = cls(name, await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        await holder.hears("holding")
        return holder

    async def hears(self, beginning: str, ending: str = "") -> None:
        """Wait until it tells this, passing over other words."""
        assert self.process.stdout is not None
        heard: list[str] = []
        try:
            async with asyncio.timeout(60):
                while not heard or not (heard[-1].startswith(beginning) and heard[-1].endswith(ending)):
                    heard.append((await self.process.stdout.readline()).decode().strip())
                    assert heard[-1] or not self.process.stdout.at_eof(), f"{self.name} is gone after {heard}"
        except TimeoutError:
            pytest.fail(f"{self.name} told only {heard}")

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stop(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()


@contextlib.asynccontextmanager
async def holders(path: Path, *names: str, timeout_ms: int = 30_000) -> AsyncIterator[list[Holder]]:
    async with contextlib.AsyncExitStack() as stack:
        started = [await Holder.start(path, name, timeout_ms) for name in names]
        for holder in started:
            stack.push_async_callback(holder.stop)
        yield started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.mark.timed
def test_killed_process_is_gone_for_the_others_within_a_third_of_a_second(path: Path) -> None:
    async def story() -> list[float]:
        took: list[float] = []
        async with holders(path, "a", "b") as survivors:
            for attempt in range(3):
                victim = await Holder.start(path, "c", 9_000)
                for survivor in survivors:
                    await survivor.hears("ids", "a,b,c")
                begin = asyncio.get_running_loop().time()
                victim.signal(signal.SIGKILL)
                for survivor in survivors:
                    await survivor.hears("ids", "a,b")
                took.append(asyncio.get_running_loop().time() - begin)
                await victim.stop()
                assert len(list(path.parent.glob("*.session-*"))) == 2, f"attempt {attempt} left a lock file"
        return took

    took = asyncio.run(story())
    assert min(took) < 0.3, took
    assert max(took) < 3, took


@pytest.mark.timed
def test_c05_stopped_process_is_expired_and_writes_nothing_when_it_goes_on(path: Path) -> None:
    async def story() -> bytes:
        async with holders(path, "a", "b", "c", timeout_ms=1_000) as (first, second, stopped):
            await first.hears("ids", "a,b,c")
            stopped.signal(signal.SIGSTOP)
            stopped.tell("write")
            for survivor in (first, second):
                await survivor.hears("ids", "a,b")
            stopped.signal(signal.SIGCONT)
            await stopped.hears("expired")
            stopped.tell("write")
            await stopped.hears("expired")
        return (await epoch_in(path)).data

    assert asyncio.run(story()) == b""


async def epoch_in(path: Path) -> Node:
    registry = SqliteRegistry(str(path))
    await registry.open_session()
    node = await registry.get("/epoch")
    await registry.close()
    return node


def test_processes_that_count_together_lose_nothing(path: Path) -> None:
    async def story() -> Node:
        async with holders(path, "a", "b", "c") as all_of_them:
            for holder in all_of_them:
                holder.tell("count")
            for holder in all_of_them:
                await holder.hears("counted")
        return await epoch_in(path)

    node = asyncio.run(story())
    assert (int(node.data), node.version) == (3 * COUNT, 3 * COUNT)


@pytest.mark.timed
def test_idle_handle_costs_less_than_a_hundredth_of_a_core(path: Path) -> None:
    async def story() -> float:
        registry = SqliteRegistry(str(path))
        await registry.open_session()
        async with holders(path, "a", "b"):
            before = os.times()
            await settle(5)
            after = os.times()
        await registry.close()
        return after.user + after.system - before.user - before.system

    assert asyncio.run(story()) / 5 < 0.01


@pytest.mark.timed
def test_owner_that_goes_on_hears_that_its_session_is_over(path: Path) -> None:
    async def story() -> None:
        async with holders(path, "a", "b", timeout_ms=1_000) as (first, stopped):
            await first.hears("ids", "a,b")
            stopped.signal(signal.SIGSTOP)
            await first.hears("ids", "a")
            stopped.signal(signal.SIGCONT)
            await stopped.hears("ended")

    asyncio.run(story())


@pytest.mark.timed
def test_pause_shorter_than_the_timeout_costs_nothing(path: Path) -> None:
    async def story() -> None:
        async with holders(path, "a", "b", timeout_ms=3_000) as (first, stopped):
            await first.hears("ids", "a,b")
            for _ in range(3):
                stopped.signal(signal.SIGSTOP)
                await settle(0.4)
                stopped.signal(signal.SIGCONT)
                stopped.tell("write")
                await stopped.hears("written")

    asyncio.run(story())


@pytest.mark.timed
def test_all_stopped_at_once_go_on_as_if_nothing_had_been(path: Path) -> None:
    # As a laptop does that is closed, or a virtual machine that is moved.
    async def story() -> None:
        async with holders(path, "a", "b", "c", timeout_ms=1_000) as all_of_them:
            for holder in all_of_them:
                holder.signal(signal.SIGSTOP)
            await settle(2.0)
            for holder in all_of_them:
                holder.signal(signal.SIGCONT)
            await settle(1.5)
            for holder in all_of_them:
                holder.tell("write")
                await holder.hears("written")

    asyncio.run(story())


@pytest.mark.timed
def test_nobody_is_expired_while_every_core_is_busy(path: Path) -> None:
    async def story() -> None:
        async with holders(path, "a", "b", "c", timeout_ms=2_000) as all_of_them:
            await settle(4.5)
            for holder in all_of_them:
                holder.tell("show")
                await holder.hears("ids", "a,b,c")
                holder.tell("write")
                await holder.hears("written")

    command = [sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as stack:
        for _ in range(3 * (os.cpu_count() or 1)):
            busy = stack.enter_context(subprocess.Popen(command))  # which waits for its end
            stack.callback(busy.kill)
        asyncio.run(story())


@pytest.mark.timed
def test_sessions_from_before_a_reboot_are_expired_by_the_first_one_to_come(path: Path) -> None:
    async def story() -> None:
        async with holders(path, "a", "b") as all_of_them:
            for holder in all_of_them:
                holder.signal(signal.SIGKILL)
                await holder.process.wait()
        for leftover in path.parent.glob("*.session-*"):  # their names need not survive a loss of power
            leftover.unlink()
        registry = SqliteRegistry(str(path))
        await registry.open_session()
        assert await registry.children("/ids") == []
        await registry.close()

    asyncio.run(story())


async def settle(duration_s: float) -> None:
    """Let real time pass for other processes; there is no fact to wait for when the claim is that nothing happens."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(duration_s):
            await asyncio.get_running_loop().create_future()

"""The worlds in which every promise of the runtime interfaces is asked for: real ones on both loops, and the simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import uvloop

from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime
from tidelog.simulation import World

T = TypeVar("T")
DEADLINE_S = 20


class Twin(Protocol):
    """Two runtimes that can reach each other, and a loop to use them in."""

    runtime: Runtime
    peer: Runtime
    peer_host: str
    directory: str

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...


class RealTwin:
    def __init__(self, directory: str, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.runtime = self.peer = real_runtime()
        self.peer_host = "127.0.0.1"
        self.directory = directory
        self._new_loop = new_loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            return runner.run(_within(work))


class SimulatedTwin:
    def __init__(self, world: World) -> None:
        self.runtime = world.node("one").runtime
        self.peer = world.node("other").runtime
        self.peer_host = "other"
        self.directory = "/data"
        self.runtime.disk.mkdir(self.directory)
        self._world = world

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._world.run(_within(work))


@contextmanager
def open_twin(kind: str, directory: str) -> Iterator[Twin]:
    if kind == "simulated":
        with World(seed=1) as world:
            yield SimulatedTwin(world)
    else:
        twin = RealTwin(directory, uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop)
        yield twin
        twin.runtime.disk.close()


async def _within(work: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(DEADLINE_S):
        return await work

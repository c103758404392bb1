"""A world from a seed: nodes with their runtimes, the fabric between them, one loop, one trace.

with World(seed=7) as world:
    world.node("broker-1").start(lambda runtime: Broker(config, runtime).run())
    world.run(workload(world.node("client").runtime))
    print(world.digest())
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from tidelog.model import invariant
from tidelog.runtime import Runtime
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_image import Loss
from tidelog.simulation.fabric import Fabric
from tidelog.simulation.loop import OwnedTask, Process, SimulatedLoop, current_process
from tidelog.simulation.metrics import SimulatedMetrics
from tidelog.simulation.network import SimulatedNetwork
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.trace import Trace, TraceHandler

T = TypeVar("T")
Main: TypeAlias = Callable[[Runtime], Coroutine[Any, Any, object]]


class Node:
    """One machine of the world: a disk, a clock and a host that stay, and processes that come and go."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.clock = SimulatedClock(world.loop.time_ms)
        self.disk = SimulatedDisk(self.clock, world.randomness.stream(f"disk/{name}"))
        self.host = world.fabric.host(name)
        self.incarnation = 0
        self.excuse: Callable[[BaseException], bool] = lambda _: False  # whether its main had to end with this error
        self._world = world
        self._main: Main | None = None
        self._lost_power = False
        self._begin()

    @property
    def runtime(self) -> Runtime:
        """The world as the current process of this node sees it."""
        return self._runtime

    @property
    def is_running(self) -> bool:
        """Whether the node has a process, paused or not."""
        return self.process.is_alive

    def start(self, main: Main) -> OwnedTask[object]:
        """Run `main` as this node. When it returns, the process ends; if it raises, the run fails, unless `excuse` knows why."""
        self._main = main
        return self._start(main)

    def spawn(self, work: Coroutine[Any, Any, T]) -> OwnedTask[T]:
        """Run `work` in this node's process beside its main."""
        return self._world.loop.create_task(work, context=self.process.context.copy())

    def kill(self) -> None:
        """kill -9: no `finally` runs, the kernel closes connections, the page cache stays."""
        self._end("killed", lost_power=False)

    def power_cut(self) -> None:
        """The machine is off: unflushed bytes are lost or torn by the seed, peers hear nothing."""
        self._end("power cut", lost_power=True)

    def lose_power(self) -> None:
        """The machine goes dark after its process is gone: what that left in the page cache is lost or torn, too."""
        invariant(not self.is_running, f"{self.name} is not running")
        self._lost_power = True
        self._world.fabric.power_lost(self.host, self.process)

    def pause(self) -> None:
        """SIGSTOP."""
        self._world.trace.add(self.name, "paused")
        self._world.loop.pause(self.process)

    def resume(self) -> None:
        """SIGCONT."""
        self._world.trace.add(self.name, "resumed")
        self._world.loop.resume(self.process)

    def restart(self) -> OwnedTask[object] | None:
        """A new process on the same disk; runs the main it was started with, if any."""
        if self.is_running:
            self.kill()
        if self._lost_power:
            self.disk.cut_power()
            self._world.fabric.power_back(self.host)
        else:
            self.disk.crash(lose=Loss.NOTHING)
        self._begin()
        return None if self._main is None else self._start(self._main)

    def _begin(self) -> None:
        self.incarnation += 1
        self._lost_power = False
        self.process = Process(self.name, self.incarnation)
        self._runtime = Runtime(
            clock=self.clock,
            disk=self.disk,
            network=SimulatedNetwork(self._world.fabric, self.host, self.process),
            randomness=self._world.randomness.stream(f"app/{self.name}/{self.incarnation}"),
            metrics=SimulatedMetrics(),
        )

    def _start(self, main: Main) -> OwnedTask[object]:
        self._world.trace.add(self.name, "started", incarnation=self.incarnation)
        task = self._world.loop.create_task(
            main(self.runtime), name=f"{self.name}#{self.incarnation}", context=self.process.context.copy()
        )
        process = self.process
        task.add_done_callback(lambda done: self._main_ended(done, process), context=self._world.loop.world.context)
        return task

    def _main_ended(self, task: asyncio.Future[object], process: Process) -> None:
        if not process.is_alive:  # Killed in its last callback: whatever it raised then, nobody hears.
            return
        error = None if task.cancelled() else task.exception()
        self._end("ended", lost_power=False)
        if error is not None and not self.excuse(error):
            self._world.loop.fail(process, "the main of the node raised", error)

    def _end(self, how: str, *, lost_power: bool) -> None:
        invariant(self.is_running, f"{self.name} is running")
        self._world.trace.add(self.name, how, incarnation=self.incarnation)
        self._lost_power = lost_power
        self._world.loop.kill(self.process)
        self.disk.switch_off()
        if lost_power:
            self._world.fabric.power_lost(self.host, self.process)
        else:
            self._world.fabric.process_died(self.host, self.process)


class World:
    """Everything of one simulated run. Use it in a `with`: it borrows the `tidelog` logger and the garbage collector."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.randomness = SimulatedRandomness(f"world/{seed}")
        self.faults = self.randomness.stream("fault")
        self.loop = SimulatedLoop(self.randomness.stream("sched"))
        self.trace = Trace(self.loop.time_ms)
        self.fabric = Fabric(self.loop, self.randomness.stream("net"), self.trace)
        self.expected: tuple[type[BaseException], ...] = ()  # what a test puts into a broker that shall survive it
        self._nodes: dict[str, Node] = {}
        self._handler = TraceHandler(self.trace, self._survived)
        self._logger = logging.getLogger("tidelog")
        self._logger_before = (self._logger.level, self._logger.propagate)
        self._collects_garbage = False

    def __enter__(self) -> World:
        self._logger_before = (self._logger.level, self._logger.propagate)
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._collects_garbage = gc.isenabled()
        gc.disable()  # A collection in the middle of a run would run finalizers at moments no seed decides.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                error.add_note(f"seed {self.seed}; the trace ends with\n{self.trace.text(last=40)}")
            else:
                self.loop.fail_unheard()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._logger.removeHandler(self._handler)
        level, self._logger.propagate = self._logger_before
        self._logger.setLevel(level)
        self.loop.close()
        if self._collects_garbage:
            gc.enable()

    def node(self, name: str) -> Node:
        """The node of this name, which exists from now on."""
        if name not in self._nodes:
            self._nodes[name] = Node(self, name)
        return self._nodes[name]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Drive the world until `work`, the story told from outside, is done; fails if any task or callback failed meanwhile."""
        return self.loop.run(work)

    def run_for_ms(self, duration_ms: float) -> None:
        """Let virtual time pass."""
        self.run(asyncio.sleep(duration_ms / 1000))

    def _survived(self, sentence: str, error: BaseException) -> None:
        process = current_process()
        if isinstance(error, self.expected):
            return
        if process is None or process.is_alive:  # Killed in its last callback: whatever it met then, nobody hears.
            self.loop.fail(process or self.loop.world, f"it logged '{sentence}'", error)

    def digest(self) -> str:
        """The fingerprint of the run: the trace, every byte delivered, how many callbacks ran, and when it ended."""
        ending = f"{self.loop.callback_count} {self.loop.time():.9f} {self.fabric.delivered_bytes}"
        return f"{self.trace.digest()}/{ending}"

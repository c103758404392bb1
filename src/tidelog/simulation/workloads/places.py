"""Machines of clients that come and go, and on each the processes that run there one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tidelog.runtime import Runtime
from tidelog.simulation.world import Node


class Inhabitant(Protocol):
    """What runs in one process. Nothing of it is used by another."""

    async def run(self, runtime: Runtime) -> None:
        """Its main."""
        ...

    def stop(self) -> None:
        """End in good order, soon."""
        ...


T = TypeVar("T", bound=Inhabitant)


class Place(Generic[T]):
    """One machine. Its process may be started, stopped and killed at any time; what makes no sense at the moment does nothing.

    `beget` makes who lives there next, from the name of the process and the number of its life.
    """

    def __init__(self, node: Node, beget: Callable[[str, int], T], *, on_killed: Callable[[T], None]) -> None:
        self.inhabitant: T | None = None
        self._node = node
        self._beget = beget
        self._on_killed = on_killed
        self._life = 0

    @property
    def name(self) -> str:
        """What the machine is called."""
        return self._node.name

    @property
    def is_running(self) -> bool:
        """Whether there is a process, stopped by a signal or not."""
        return self.inhabitant is not None and self._node.is_running

    def start(self) -> None:
        """Begin a process."""
        if self.is_running:
            return
        self._life += 1
        self.inhabitant = self._beget(f"{self.name}#{self._life}", self._life)
        if self._life == 1:
            self._node.start(self._main)
        else:
            self._node.restart()

    def leave(self) -> None:
        """Ask the process to end."""
        if self.inhabitant is not None:
            self.inhabitant.stop()

    def kill(self) -> None:
        """The process dies without a word."""
        if self.inhabitant is not None and self._node.is_running:
            self._node.kill()
            self._on_killed(self.inhabitant)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.is_running and not self._node.process.is_paused:
            self._node.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.is_running and self._node.process.is_paused:
            self._node.resume()

    async def _main(self, runtime: Runtime) -> None:
        if self.inhabitant is not None:
            await self.inhabitant.run(runtime)

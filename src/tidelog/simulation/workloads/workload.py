"""What every workload is: clients that do one thing after another until they are told to stop, and count what succeeded."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from tidelog.client import ClientError
from tidelog.runtime import Runtime
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.randomness import SimulatedRandomness

STOP_WITHIN_MS: Final = 30_000
"""However many brokers are away, a workload has ended so long after it was told to stop."""

PATIENCE: Final[Mapping[str, str]] = {
    "request.timeout.ms": "2000",
    "default.api.timeout.ms": "6000",
    "socket.connection.setup.timeout.ms": "1000",
    "retry.backoff.ms": "50",
    "retry.backoff.max.ms": "400",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "400",
    "metadata.max.age.ms": "5000",
}
"""Client settings for a world in which everything happens within seconds."""


class Workload(Protocol):
    """Clients of one kind."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    @property
    def steps(self) -> int:
        """How often it got what it wanted; while the cluster is well, this goes up."""
        ...

    @property
    def is_reading(self) -> bool:
        """Readers are stopped last, once they are at the end of what the others wrote."""
        ...

    @property
    def is_administering(self) -> bool:
        """Administrators may ask for what needs every broker; they are stopped before one is taken away for good."""
        ...

    async def run(self, runtime: Runtime) -> None:
        """Go on until stopped. Survives every ClientError that faults explain."""
        ...

    def settle(self) -> None:
        """Faults are over: no trouble of its own from now on, so that everything can come to rest."""
        ...

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """What it has still to do before it is at rest, as a reader of what the others wrote."""
        ...

    def stop(self) -> None:
        """No further step; `run` ends within STOP_WITHIN_MS."""
        ...


class Repeating(ABC):
    """The loop that workloads share. A session holds the clients; when it breaks, the next one begins."""

    is_reading = False
    is_administering = False

    def __init__(self, name: str, randomness: SimulatedRandomness, *, pause_ms: tuple[float, float]) -> None:
        self.name = name
        self.steps = 0
        self.failures = 0  # steps that faults have spoiled
        self.is_settling = False
        self.randomness = randomness
        self._pause_ms = pause_ms
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether the workload was told to stop."""
        return self._stopping.is_set()

    def settle(self) -> None:
        """Most make no trouble anyway."""
        self.is_settling = True

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """Most read nothing."""
        del snapshot
        yield from ()

    def stop(self) -> None:
        """No further step."""
        self._stopping.set()

    async def run(self, runtime: Runtime) -> None:
        """Session after session until stopped."""
        while not self.is_stopping:
            try:
                await self.session(runtime)
            except ClientError:
                self.failures += 1
                await self.pause()

    @abstractmethod
    async def session(self, runtime: Runtime) -> None:
        """Connect, and step until stopped, or until a new connection is wanted."""

    async def pause(self) -> None:
        """Wait between two steps; ends at once when stopped."""
        await self.wait_ms(self.randomness.between(*self._pause_ms))

    async def wait_ms(self, duration_ms: float) -> None:
        """Wait; ends at once when stopped."""
        try:
            async with asyncio.timeout(duration_ms / 1000):
                await self._stopping.wait()
        except TimeoutError:
            return

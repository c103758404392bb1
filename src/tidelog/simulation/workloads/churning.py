"""What the workloads share whose clients are processes on machines of their own: they die, leave, are stopped for a while, and come back."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.places import Inhabitant, Place
from tidelog.simulation.workloads.workload import Repeating

_LOOKS_FOR_THE_END: Final = 80
_BETWEEN_LOOKS_FOR_THE_END_S: Final = 0.1
_SETTLED_MS: Final = 500


class Hurrying(Inhabitant, Protocol):
    """Who can be asked to make no trouble any more."""

    def hurry(self) -> None:
        """From now on do the plain thing, and soon."""
        ...


T = TypeVar("T", bound=Hurrying)


class Churning(Repeating, Generic[T]):
    """Something happens to somebody now and then, until faults are over; then whoever belongs there comes back and stays."""

    def __init__(self, name: str, randomness: SimulatedRandomness, *, pause_ms: tuple[float, float]) -> None:
        super().__init__(name, randomness, pause_ms=pause_ms)

    @property
    @abstractmethod
    def places(self) -> Sequence[Place[T]]:
        """All machines."""

    @property
    @abstractmethod
    def wanted(self) -> Sequence[Place[T]]:
        """Those that are to have a process."""

    @abstractmethod
    async def churn(self) -> None:
        """Do something to somebody. What it leaves behind is put right when faults are over."""

    async def run(self, runtime: Runtime) -> None:
        """Churn until stopped, then have everybody leave."""
        await super().run(runtime)
        for place in self.places:
            place.resume()
            place.leave()
        await self.ended(self.places)

    async def session(self, runtime: Runtime) -> None:
        """The processes have their own connections."""
        del runtime
        self.start()
        while not self.is_stopping:
            if self.is_settling:
                self.start()
                await self.wait_ms(_SETTLED_MS)
            else:
                await self.pause()
                await self.churn()

    def settle(self) -> None:
        """Everybody comes back."""
        super().settle()
        for place in self.places:
            place.resume()
        self.start()

    def start(self) -> None:
        """Those that are to have a process have one, unless everybody is to leave."""
        for place in () if self.is_stopping else self.wanted:
            place.resume()
            place.start()
            if self.is_settling and place.inhabitant is not None:
                place.inhabitant.hurry()

    async def ended(self, places: Sequence[Place[T]]) -> None:
        """Wait until the processes have ended; those that cannot reach anybody to say goodbye to are killed in the end."""
        for _ in range(_LOOKS_FOR_THE_END):
            if self.is_called_back or not any(place.is_running for place in places):
                return
            await asyncio.sleep(_BETWEEN_LOOKS_FOR_THE_END_S)
        for place in places:
            place.kill()

    @property
    def is_called_back(self) -> bool:
        """Whether those who were away have been started again by `settle`."""
        return self.is_settling and not self.is_stopping

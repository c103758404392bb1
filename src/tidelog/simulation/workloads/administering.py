"""What the workloads of administrators share: an admin that asks for one thing after another and takes no for an answer."""

from __future__ import annotations

from abc import abstractmethod

from tidelog.client import Admin, ClientConfig, ClientError
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.workload import PATIENCE, Repeating


class Administering(Repeating):
    """One question at a time. A step that fails is not repeated; the next one asks for something else."""

    is_administering = True

    def __init__(
        self, name: str, bootstrap: str, randomness: SimulatedRandomness, *, pause_ms: tuple[float, float]
    ) -> None:
        super().__init__(name, randomness, pause_ms=pause_ms)
        self.config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, **PATIENCE})

    async def session(self, runtime: Runtime) -> None:
        """One admin for as long as the workload runs."""
        async with Admin.connect(self.config, runtime) as admin:
            while True:
                await self.pause()
                if self.is_stopping:
                    return
                await self._try(admin, runtime)

    async def _try(self, admin: Admin, runtime: Runtime) -> None:
        try:
            is_done = await self.step(admin, runtime)
        except ClientError:
            is_done = False
        if is_done:
            self.steps += 1
        else:
            self.failures += 1

    @abstractmethod
    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """Ask for one thing; whether it was done. May raise ClientError."""

"""Changes of min.insync.replicas: `safe` wants two replicas to have a record, or all three; never fewer."""

from __future__ import annotations

from typing import Final

from tidelog.client import Admin, ConfigChange, ConfigResource, ResourceKind
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.administering import Administering
from tidelog.simulation.workloads.history import SAFE
from tidelog.simulation.workloads.topics import REPLICAS

_STRICT_ONE_IN: Final = 4  # With three of three, every dead broker stops the writers: that shall not be most of a run.


class MinIsrChanges(Administering):
    """Turns the setting up now and then, and down again; down for good once faults are over."""

    def __init__(self, name: str, bootstrap: str, randomness: SimulatedRandomness) -> None:
        super().__init__(name, bootstrap, randomness, pause_ms=(800, 2500))

    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """Set it."""
        del runtime
        is_strict = self.randomness.below(_STRICT_ONE_IN) == 0 and not self.is_settling
        wanted = REPLICAS if is_strict else REPLICAS - 1
        change = ConfigChange(name="min.insync.replicas", value=str(wanted))
        (result,) = await admin.alter_configs({ConfigResource(ResourceKind.TOPIC, SAFE): [change]})
        return result.is_ok

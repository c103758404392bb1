"""Elections: leadership goes back to the preferred replicas, and `unclean` is given whatever leader there is."""

from __future__ import annotations

from typing import Final

from tidelog.client import Admin, ElectionKind
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.administering import Administering
from tidelog.simulation.workloads.topics import (
    LEDGER_PARTITIONS,
    OFFSETS_PARTITION,
    SAFE_PARTITIONS,
    TRANSACTIONS_PARTITION,
    UNCLEAN_PARTITION,
)

_UNCLEAN_ONE_IN: Final = 3
_PREFERRED: Final = (
    *SAFE_PARTITIONS,
    *LEDGER_PARTITIONS,
    UNCLEAN_PARTITION,
    OFFSETS_PARTITION,
    TRANSACTIONS_PARTITION,
)
_FINE: Final = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


class Elections(Administering):
    """Nobody ever asks for an unclean election of `safe`: that would be a wish to lose records."""

    def __init__(self, name: str, bootstrap: str, randomness: SimulatedRandomness) -> None:
        super().__init__(name, bootstrap, randomness, pause_ms=(1500, 4000))

    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """Ask for an election."""
        del runtime
        if self.randomness.below(_UNCLEAN_ONE_IN) == 0:
            results = await admin.elect_leaders(ElectionKind.UNCLEAN, [UNCLEAN_PARTITION])
        else:
            results = await admin.elect_leaders(ElectionKind.PREFERRED, _PREFERRED)
        return all(result.code in _FINE for result in results.values())

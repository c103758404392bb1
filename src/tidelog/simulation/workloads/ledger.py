"""The ledger: tellers move amounts between accounts in several partitions, and die, stall, are replaced while they sleep, and come back.

Each teller has a transactional id and two machines. Whoever takes the id over fences the one that had it, which may still run, or be stopped
in the middle of a transaction and wake up later: a zombie. One teller commits in two phases. Whatever happens, each transfer is seen as a
whole or not at all, so the total of all accounts stays the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.churning import Churning
from tidelog.simulation.workloads.clerk import Clerk
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.places import Place
from tidelog.simulation.workloads.teller import Teller, TellerPlan, Vault
from tidelog.simulation.workloads.transacting import TIMEOUT_MS

_AWAY_MS: Final = ((20, 400), (400, 2_000), (TIMEOUT_MS, TIMEOUT_MS + 2_000))


class _Desk:
    """One transactional id: where its newest incarnation runs, and where the one before may still."""

    def __init__(self, here: Place[Teller], there: Place[Teller]) -> None:
        self.here = here
        self.there = there

    def replace(self) -> None:
        """Somebody else takes over on the other machine, whatever the one before does."""
        self.there.resume()
        self.there.kill()  # a zombie from an earlier time
        self.here, self.there = self.there, self.here
        self.here.start()


class Ledger(Churning[Teller]):
    """Two tellers, one of them two-phase."""

    def __init__(self, name: str, cluster: SimulatedCluster, history: History, randomness: SimulatedRandomness) -> None:
        super().__init__(name, randomness, pause_ms=(400, 2_000))
        self._cluster = cluster
        self._history = history
        self._given_up: _Desk | None = None
        self._clerk = Clerk(cluster.bootstrap, history.transactions)
        self._desks = [self._desk(f"{name}-plain", None), self._desk(f"{name}-prepared", Vault())]

    async def run(self, runtime: Runtime) -> None:
        """The clerk works beside the churn."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._clerk.run(runtime))
            await super().run(runtime)
            self._clerk.stop()

    @property
    def places(self) -> Sequence[Place[Teller]]:
        """All machines."""
        return [place for desk in self._desks for place in (desk.here, desk.there)]

    @property
    def wanted(self) -> Sequence[Place[Teller]]:
        """The newest incarnation of each id that is still used."""
        return [desk.here for desk in self._desks if desk is not self._given_up]

    def settle(self) -> None:
        """Everybody comes back; but one teller, by chance, dies in the middle of a transaction, and nobody takes its id any more."""
        super().settle()
        teller = self._desks[0].here.inhabitant
        if self.randomness.below(2) and teller is not None:
            teller.leave_open()

    def start(self) -> None:
        """Who has left its transaction open is killed, and not started again."""
        for desk in self._desks:
            if desk.here.inhabitant is not None and desk.here.inhabitant.has_left_open:
                self._given_up = desk
                desk.here.kill()
        super().start()

    async def churn(self) -> None:
        """Kill, stop in good order, put to sleep, or put to sleep and replace."""
        if self.is_stopping or self.is_called_back:
            return
        desk = self._desks[self.randomness.below(len(self._desks))]
        place, what = desk.here, self.randomness.below(4)
        away_ms = self.randomness.between(*_AWAY_MS[self.randomness.below(len(_AWAY_MS))])
        if what == 0:
            place.kill()
        elif what == 1:
            place.leave()
        else:
            place.pause()
        if what == 3:
            await self.wait_ms(self.randomness.between(0, 500))
            desk.replace()
        await self.wait_ms(away_ms)
        place.resume()
        if what == 1:
            await self.ended([place])
        if not self.is_stopping:
            desk.here.start()

    def _desk(self, transactional_id: str, vault: Vault | None) -> _Desk:
        plan = TellerPlan(
            bootstrap=self._cluster.bootstrap,
            transactional_id=transactional_id,
            vault=vault,
            clerk=self._clerk,
            on_committed=self._on_committed,
        )

        def place(machine: str) -> Place[Teller]:
            randomness = self.randomness.stream(f"{transactional_id} {machine}")
            return Place(
                self._cluster.world.node(f"{transactional_id}-{machine}"),
                lambda process, life: Teller(process, plan, self._history, randomness.stream(f"life {life}")),
                on_killed=lambda _: None,
            )

        return _Desk(place("a"), place("b"))

    def _on_committed(self) -> None:
        self.steps += 1

"""Copies: a group reads what is committed of the ledger and copies every record once, while its members come, go, sleep and die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.churning import Churning
from tidelog.simulation.workloads.copier import Copier, CopierPlan
from tidelog.simulation.workloads.group_member import MEMBER_SETTINGS, SESSION_MS
from tidelog.simulation.workloads.history import COPIES, LEDGER, History
from tidelog.simulation.workloads.places import Place
from tidelog.simulation.workloads.topics import LEDGER_PARTITIONS

_COUNTS: Final = (1, 2)
_AWAY_MS: Final = ((50, 400), (400, 2_000), (SESSION_MS, SESSION_MS + 2_500))
_PROTOCOLS: Final = (
    {"group.protocol": "consumer"},
    {"group.protocol": "classic", "session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "1000"},
)


class Copies(Churning[Copier]):
    """One group, each of whose members has a transactional id of its own."""

    is_reading = True

    def __init__(self, name: str, cluster: SimulatedCluster, history: History, randomness: SimulatedRandomness) -> None:
        super().__init__(name, randomness, pause_ms=(500, 3_000))
        self._history = history
        history.transactions.copied[name] = (LEDGER, COPIES)
        protocol = _PROTOCOLS[randomness.below(len(_PROTOCOLS))]
        count = _COUNTS[randomness.below(len(_COUNTS))]
        self._places = [self._place(cluster, f"{name}-{number}", protocol) for number in range(1, count + 1)]

    @property
    def places(self) -> Sequence[Place[Copier]]:
        """All machines."""
        return self._places

    @property
    def wanted(self) -> Sequence[Place[Copier]]:
        """All of them."""
        return self._places

    async def churn(self) -> None:
        """Kill, stop in good order, or put to sleep."""
        if self.is_stopping or self.is_called_back:
            return
        place = self._places[self.randomness.below(len(self._places))]
        away = (place.kill, place.leave, place.pause)[self.randomness.below(3)]
        away()
        await self.wait_ms(self.randomness.between(*_AWAY_MS[self.randomness.below(len(_AWAY_MS))]))
        place.resume()
        if away == place.leave:
            await self.ended([place])
        if not self.is_stopping:
            place.start()

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """Partitions that are not copied to their end by one of the members."""
        for leader in snapshot.leaders():
            if leader.topic_partition in LEDGER_PARTITIONS:
                owners = [place.inhabitant for place in self._places if place.inhabitant is not None]
                at = [
                    one.positions[leader.topic_partition] for one in owners if leader.topic_partition in one.positions
                ]
                if len(at) != 1 or at[0] < leader.high_watermark:
                    yield f"{self.name} is at {at} of {leader.topic_partition}, which is committed up to {leader.high_watermark}"

    def _place(self, cluster: SimulatedCluster, machine: str, protocol: dict[str, str]) -> Place[Copier]:
        settings = {**MEMBER_SETTINGS, **protocol, "group.id": self.name, "client.id": machine}
        plan = CopierPlan(
            bootstrap=cluster.bootstrap,
            transactional_id=machine,
            consumer={**settings, "isolation.level": "read_committed", "fetch.min.bytes": "600"},
            on_copied=self._on_copied,
        )
        randomness = self.randomness.stream(machine)
        return Place(
            cluster.world.node(machine),
            lambda process, life: Copier(process, plan, self._history, randomness.stream(f"life {life}")),
            on_killed=lambda _: None,
        )

    def _on_copied(self) -> None:
        self.steps += 1

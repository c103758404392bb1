"""Who performs a fault plan on a cluster: each fault at its time, its end at its own, and in the end everybody is well."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog.simulation.cluster import LOG_DIR, SimulatedCluster
from tidelog.simulation.faults import clock_faults, disk_faults, network_faults, process_faults, registry_faults
from tidelog.simulation.faults.damage import DamageRule
from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.faults.menu import Lasting
from tidelog.simulation.faults.plan import Fault, FaultPlan
from tidelog.simulation.faults.site import Act, Effect, Site

ACTS: Final[dict[str, Act]] = {
    **process_faults.ACTS,
    **network_faults.ACTS,
    **disk_faults.ACTS,
    **registry_faults.ACTS,
    **clock_faults.ACTS,
}


@dataclass(slots=True, eq=False)
class _Active:
    fault: Fault
    effect: Effect
    is_over: bool = False


class Injector:
    """Performs each fault of a plan at its time and undoes it. One that meets nothing, or would break the damage rule, is left out."""

    def __init__(self, cluster: SimulatedCluster, plan: FaultPlan, doses: Doses) -> None:
        self._cluster = cluster
        self._plan = plan
        self._doses = doses
        self._site = Site(cluster, plan)
        self._damage = DamageRule(cluster, plan)
        self._active: list[_Active] = []
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._agenda_count = 0
        self._is_healed = False
        for fault in plan.faults:
            doses.draw(fault.kind)
            self._plan_for(fault.at_ms, partial(self.begin, fault))

    async def run(self) -> None:
        """A task of the world: begins and ends what the plan says, counted from now, until nothing is left or everything was healed."""
        began_ms = self._now_ms()
        while self._agenda and not self._is_healed:
            at_ms = self._agenda[0][0]
            await asyncio.sleep(max(began_ms + at_ms - self._now_ms(), 0.0) / 1000)
            if not self._is_healed:
                heapq.heappop(self._agenda)[2]()

    def begin(self, fault: Fault) -> bool:
        """Let a fault happen now; whether there was anything for it to act on. run() ends it, heal() at the latest."""
        effect = ACTS[fault.kind](self._site, fault) if self._damage.allows(fault) else None
        if effect is None:
            self._tell("fault left out", fault)
            return False
        self._tell("fault begins", fault)
        if effect.has_acted is None:
            self._doses.inject(fault.kind)
        if fault.means.lasting is not Lasting.MOMENT:
            self._damage.begin(fault)
            active = _Active(fault, effect)
            self._active.append(active)
            if fault.for_ms:
                self._plan_for(fault.at_ms + fault.for_ms, partial(self._end, active))
        return True

    def heal(self) -> None:
        """Undo everything, restart and resume everybody. What run() still had to do is left undone; wall clocks stay where they jumped."""
        self._is_healed = True
        for active in reversed(self._active.copy()):
            self._end(active)
        self._cluster.world.fabric.faults.heal()
        self._cluster.store.heal()
        for broker in self._cluster.brokers.values():
            broker.node.disk.faults.heal()
            broker.node.disk.free_up()
            broker.node.disk.end_stall(LOG_DIR)
        self._site.supervisor.revive_all()

    def _end(self, active: _Active) -> None:
        if active.is_over:
            return
        active.is_over = True
        self._active.remove(active)
        if active.effect.has_acted is not None and active.effect.has_acted():
            self._doses.inject(active.fault.kind)
        self._tell("fault ends", active.fault)
        active.effect.undo()
        self._damage.end(active.fault)

    def _tell(self, sentence: str, fault: Fault) -> None:
        fields: dict[str, object] = {"kind": fault.kind}
        if fault.targets:
            fields["targets"] = ",".join(fault.targets)
        if fault.means.amount is not None:
            fields["amount"] = fault.amount
        self._cluster.world.trace.add("world", sentence, **fields)

    def _plan_for(self, at_ms: int, action: Callable[[], object]) -> None:
        self._agenda_count += 1
        heapq.heappush(self._agenda, (at_ms, self._agenda_count, action))

    def _now_ms(self) -> float:
        return self._cluster.world.loop.time() * 1000

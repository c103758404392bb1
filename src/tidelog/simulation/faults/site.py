"""The place where faults act: the cluster with what several faults share, so that the end of one does not end another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidelog.simulation.cluster import SimulatedBroker, SimulatedCluster
from tidelog.simulation.faults.link_troubles import LinkTroubles
from tidelog.simulation.faults.menu import CLIENT, Family
from tidelog.simulation.faults.plan import Fault, FaultPlan
from tidelog.simulation.faults.supervisor import EVERYBODY, Supervisor


def _nothing() -> None:
    """Nothing is left to undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A fault that is under way: how to end it, and whether it has met anything, where that is not known at once."""

    undo: Callable[[], None] = _nothing
    has_acted: Callable[[], bool] | None = None  # None: it has, at once


Act = Callable[["Site", Fault], Effect | None]  # None: the fault met nothing to act on


@dataclass(slots=True)
class Holds:
    """Who keeps something in a state: it ends with the last one."""

    _by_name: dict[str, list[Fault]] = field(default_factory=dict)

    def add(self, name: str, fault: Fault) -> None:
        """One more fault holds it."""
        self._by_name.setdefault(name, []).append(fault)

    def remove(self, name: str, fault: Fault) -> bool:
        """A fault lets go; whether nobody holds it now."""
        holding = self._by_name.get(name, [])
        self._by_name[name] = [each for each in holding if each is not fault]
        return not self._by_name[name]

    def of(self, name: str) -> tuple[Fault, ...]:
        """The faults that hold it."""
        return tuple(self._by_name.get(name, ()))


class Site:
    """A cluster that faults act on."""

    def __init__(self, cluster: SimulatedCluster, plan: FaultPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.chance = cluster.world.randomness.stream("injector")
        self.supervisor = Supervisor(cluster)
        self.links = LinkTroubles(cluster.world.fabric)
        self.registry_cuts = Holds()
        self.registry_pace = Holds()
        self.disks = Holds()
        self.clocks = Holds()
        self._timing = cluster.store.timing

    def broker(self, fault: Fault) -> SimulatedBroker:
        """The broker that a fault of one names."""
        return self.supervisor.brokers[fault.targets[0]]

    def brokers(self) -> Iterable[SimulatedBroker]:
        """All of them."""
        return self.cluster.brokers.values()

    def hosts(self, name: str) -> tuple[str, ...]:
        """The machines that a name in a plan stands for: the client's is that of everybody who is no broker."""
        if name != CLIENT:
            return (name,)
        others = [host for host in self.cluster.world.fabric.host_names if host not in self.supervisor.brokers]
        return tuple(dict.fromkeys([CLIENT, *others]))

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something in the world's name."""
        loop = self.cluster.world.loop
        loop.call_later(delay_ms / 1000, action, context=loop.world.context)

    # The registry, which several faults cut and slow at once.

    def cut_registry(self, name: str, fault: Fault) -> None:
        """A broker, or everybody, cannot reach it."""
        self.registry_cuts.add(name, fault)
        self.supervisor.trouble_begins(Family.REGISTRY, name)
        if name == EVERYBODY:
            self.cluster.store.is_available = False
        else:
            self.cluster.store.cut(name)

    def mend_registry(self, name: str, fault: Fault) -> None:
        """A fault cuts it no more."""
        if self.registry_cuts.remove(name, fault):
            if name == EVERYBODY:
                self.cluster.store.is_available = True
            else:
                self.cluster.store.heal(name)
        self.supervisor.trouble_ends(Family.REGISTRY, name)

    def pace_registry(self) -> None:
        """As slow as the worst of the faults that slow it."""
        base = self._timing
        watches = [fault.amount for fault in self.registry_pace.of("late-watches")]
        calls = [fault.amount for fault in self.registry_pace.of("slow-registry")]
        self.cluster.store.timing = replace(
            base,
            watch_delay_ms_max=max([base.watch_delay_ms_max, *watches]),
            latency_ms_max=max([base.latency_ms_max, *calls]),
        )

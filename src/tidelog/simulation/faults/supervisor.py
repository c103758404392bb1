"""Who starts brokers again that faults have ended: a supervisor as every production machine has one, and the excuse it needs."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from tidelog.controller.service import BrokerIdTaken
from tidelog.registry.errors import RegistryError, RegistryUnavailable
from tidelog.runtime import StorageFailure
from tidelog.simulation.cluster import SimulatedBroker, SimulatedCluster
from tidelog.simulation.faults.menu import Family

EVERYBODY: Final = "*"
_AGAIN_AFTER_MS: Final = 500.0
_GRACE_MS: Final = 30_000.0


class Supervisor:
    """Starts again what a fault has ended, once no fault holds it down. A broker that ends without an excuse fails the run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.brokers = {broker.node.name: broker for broker in cluster.brokers.values()}
        self._cluster = cluster
        self._down: Counter[str] = Counter()
        self._troubles: Counter[tuple[Family, str]] = Counter()
        self._ended_ms: dict[tuple[Family, str], float] = {}
        for name, broker in self.brokers.items():
            broker.node.excuse = partial(self.is_excused, name)

    # Brokers that are down because a fault wants it so.

    def hold_down(self, broker: SimulatedBroker) -> None:
        """It stays down until every fault that holds it has let go."""
        self._down[broker.node.name] += 1

    def let_up(self, broker: SimulatedBroker) -> None:
        """One fault lets go."""
        self._down[broker.node.name] -= 1
        self.revive(broker)

    def revive(self, broker: SimulatedBroker) -> None:
        """Start it, if it does not run and nothing holds it down."""
        if not broker.node.is_running and not self._down[broker.node.name]:
            broker.restart()

    def revive_all(self) -> None:
        """Nothing holds anybody any more: everybody runs."""
        self._down.clear()
        for broker in self.brokers.values():
            if broker.node.is_running and broker.node.process.is_paused:
                broker.resume()
            self.revive(broker)

    # What excuses a broker that ended by itself.

    def trouble_begins(self, family: Family, name: str) -> None:
        """From now on a broker (or everybody, "*") may end because of its disk, or of the registry."""
        self._troubles[family, name] += 1

    def trouble_ends(self, family: Family, name: str) -> None:
        """The cause is gone; what it began may take a while."""
        self._troubles[family, name] -= 1
        self._ended_ms[family, name] = self._now_ms()

    def is_excused(self, name: str, error: BaseException) -> bool:
        """Whether a broker that ended with this error had to; it is then started again after a while."""
        if not self._is_explained(name, error):
            return False
        self._cluster.world.trace.add(name, "ended because of a fault", reason=error)
        loop = self._cluster.world.loop
        loop.call_later(_AGAIN_AFTER_MS / 1000, self.revive, self.brokers[name], context=loop.world.context)
        return True

    def _is_explained(self, name: str, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):
            return all(self._is_explained(name, each) for each in error.exceptions)
        if isinstance(error, StorageFailure):
            return self._has_trouble(Family.DISK, name)
        if isinstance(error, RegistryUnavailable | RegistryError | BrokerIdTaken):
            return self._has_trouble(Family.REGISTRY, name) or self._has_trouble(Family.REGISTRY, EVERYBODY)
        return False

    def _has_trouble(self, family: Family, name: str) -> bool:
        if self._troubles[family, name] > 0:
            return True
        ended_ms = self._ended_ms.get((family, name))
        return ended_ms is not None and self._now_ms() - ended_ms <= _GRACE_MS

    def _now_ms(self) -> float:
        return self._cluster.world.loop.time() * 1000

"""Production brokers in a simulated world: the same code that `tidelog up` runs, on simulated disks, network, clock and registry.

with SimulatedCluster(seed=7, settings={"log.flush.interval.messages": "1"}) as cluster:
    cluster.tell(workload)          # a coroutine function that gets the client's runtime
    cluster.power_cut(1)
    cluster.restart(1)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.broker import Broker
from tidelog.config import BrokerConfig
from tidelog.model import BrokerId
from tidelog.runtime import Runtime
from tidelog.simulation.loop import OwnedTask
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore
from tidelog.simulation.world import Node, World

T = TypeVar("T")

PORT: Final = 9092
LOG_DIR: Final = "/data"


class SimulatedBroker:
    """One broker's place in the world: its node stays, its process, and with it the registry session, come and go."""

    def __init__(
        self, broker_id: BrokerId, node: Node, store: SimulatedRegistryStore, settings: Mapping[str, str]
    ) -> None:
        self.node = node
        self._store = store
        self._config = BrokerConfig.from_properties(
            {
                "node.id": str(broker_id),
                "listeners": f"PLAINTEXT://{node.name}:{PORT}",
                "log.dirs": LOG_DIR,
                **settings,
            }
        )
        self._broker: Broker | None = None
        self._registry: SimulatedRegistry | None = None
        self._process: OwnedTask[object] | None = None
        self.is_ready = False

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.node.name}:{PORT}"

    def start(self) -> None:
        """Begin the first process."""
        self._process = self.node.start(self._main)

    def restart(self) -> None:
        """Begin another process on the same disk."""
        self._process = self.node.restart()

    def kill(self) -> None:
        """SIGKILL."""
        self.node.kill()
        self._gone()

    def power_cut(self) -> None:
        """The machine goes dark with all that was not flushed."""
        self.node.power_cut()
        self._gone()

    async def stop(self) -> None:
        """Ask it to leave, and wait until it has."""
        if self._broker is not None and self._process is not None:
            self._broker.stop()
            await self._process

    async def _main(self, runtime: Runtime) -> None:
        self._registry = self._store.handle()
        self._broker = Broker(self._config, runtime, self._registry)
        await self._broker.run(on_ready=lambda _: self._ready())
        self.is_ready = False

    def _ready(self) -> None:
        self.is_ready = True

    def _gone(self) -> None:
        self.is_ready = False
        if self._registry is not None:
            self._registry.crash()


class SimulatedCluster:
    """Brokers, a registry and a client's machine. Leaving the `with` stops the brokers that run, unless something failed."""

    def __init__(self, seed: int = 1, *, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.world = World(seed)
        self.store = SimulatedRegistryStore(self.world.randomness.stream("registry"))
        self.brokers = {
            broker_id: SimulatedBroker(
                broker_id, self.world.node(f"broker-{broker_id}"), self.store, dict(settings or {})
            )
            for broker_id in range(1, brokers + 1)
        }

    def __enter__(self) -> Self:
        self.world.__enter__()
        for broker in self.brokers.values():
            broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                for broker in self.brokers.values():
                    if broker.node.is_running:
                        self.world.run(broker.stop())
        finally:
            self.world.__exit__(kind, error, traceback)

    @property
    def bootstrap(self) -> str:
        """What clients put into bootstrap.servers."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def client(self) -> Node:
        """The machine of the clients."""
        return self.world.node("client")

    def tell(self, story: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Run a story on the client's machine to its end."""
        task = self.client.spawn(story(self.client.runtime))

        async def watched() -> T:
            return await task

        return self.world.run(watched())

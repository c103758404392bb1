"""Production brokers in a simulated world: the same code that `tidelog up` runs, on simulated disks, network, clock and registry.

with SimulatedCluster(seed=7, brokers=3) as cluster:
    cluster.tell(workload)          # a coroutine function that gets the client's runtime
    cluster.power_cut(1)
    cluster.restart(1)
    cluster.until(lambda: cluster.state(T0).isr == (1, 2, 3), "the ISR is whole")

While it runs, the checkers look at every replica again and again; what may never happen fails the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.broker import Broker
from tidelog.config import BrokerConfig
from tidelog.controller import PartitionState
from tidelog.model import BrokerId, TopicPartition
from tidelog.partition import Partition
from tidelog.runtime import Runtime
from tidelog.simulation.checkers import Checker, InvariantBroken, all_checkers, check
from tidelog.simulation.loop import OwnedTask
from tidelog.simulation.observer import Observer, Place, ReplicaView, Snapshot
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore
from tidelog.simulation.registry_session import RegistryTiming
from tidelog.simulation.registry_view import RegistryView
from tidelog.simulation.world import Node, World

T = TypeVar("T")

PORT: Final = 9092
LOG_DIR: Final = "/data"
LOOK_EVERY_MS: Final = 20.0
STOP_WITHIN_S: Final = 120


class SimulatedBroker:
    """One broker's place in the world: its node stays, its process, and with it the registry session, come and go."""

    def __init__(
        self,
        broker_id: BrokerId,
        node: Node,
        store: SimulatedRegistryStore,
        settings: Mapping[str, str],
        *,
        on_end: Callable[[], None] = lambda: None,  # heard right before a process is killed or loses its power
    ) -> None:
        self.broker_id = broker_id
        self.node = node
        self._store = store
        self._on_end = on_end
        self._settings = {
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://{node.name}:{PORT}",
            "log.dirs": LOG_DIR,
            **settings,
        }
        self.configure({})
        self._broker: Broker | None = None
        self._registry: SimulatedRegistry | None = None
        self._process: OwnedTask[object] | None = None
        self._walked: Sequence[Partition] | None = None
        self.is_ready = False

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.node.name}:{PORT}"

    @property
    def is_controller(self) -> bool:
        """Whether it believes to be the controller."""
        return self.broker is not None and self.broker.is_controller

    @property
    def broker(self) -> Broker | None:
        """The broker of the process that runs."""
        return self._broker if self.node.is_running else None

    def configure(self, settings: Mapping[str, str]) -> None:
        """Other settings, from the next start on."""
        self._settings.update(settings)
        self._config = BrokerConfig.from_properties(self._settings)

    def suggest(self, settings: Mapping[str, str]) -> None:
        """The same, but whatever was set already stays."""
        self.configure({**settings, **self._settings})

    def start(self) -> None:
        """Begin the first process."""
        self._process = self.node.start(self._main)

    def restart(self) -> None:
        """Begin another process on the same disk."""
        if self.node.is_running:
            self.kill()
        self._broker = None
        self._process = self.node.restart()

    def kill(self) -> None:
        """SIGKILL."""
        self._on_end()
        self.node.kill()
        self._gone()

    def power_cut(self) -> None:
        """The machine goes dark with all that was not flushed."""
        self._on_end()
        self.node.power_cut()
        self._gone(lost_power=True)

    def die_now(self, *, lost_power: bool = False) -> None:
        """Die in the middle of a step, as a hook of the disk or the network asks for it: nobody can look at a replica then."""
        if lost_power:
            self.node.power_cut()
        else:
            self.node.kill()
        self._gone(lost_power=lost_power)

    def bounce(self) -> None:
        """Die and come back before anybody has noticed."""
        self.kill()
        self.restart()

    def pause(self) -> None:
        """SIGSTOP."""
        self.node.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.node.resume()

    async def stop(self) -> None:
        """Ask it to leave, and wait until it has. Raises TimeoutError when it does not."""
        if self._broker is not None and self._process is not None:
            self._broker.stop()
            async with asyncio.timeout(STOP_WITHIN_S):
                await asyncio.shield(self._process)

    @property
    def place(self) -> Place:
        """Whose replicas `partitions` are."""
        return Place(self.broker_id, self.node.incarnation, self.node.disk)

    def partitions(self) -> Sequence[Partition]:
        """Its replicas, as far as it runs and has opened them."""
        if self._walked is not None:
            return self._walked
        return () if self.broker is None else tuple(self.broker.partitions())

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing happens within the block, so its replicas are gone through once for everybody who asks for them."""
        self._walked = self.partitions()
        try:
            yield
        finally:
            self._walked = None

    async def _main(self, runtime: Runtime) -> None:
        self._registry = self._store.handle(self.node.name)
        self._broker = Broker(self._config, runtime, self._registry)
        try:
            await self._broker.run(on_ready=lambda _: self._ready())
        finally:
            self.is_ready = False

    def _ready(self) -> None:
        self.is_ready = True

    def _gone(self, *, lost_power: bool = False) -> None:
        self.is_ready = False
        self._broker = None
        if self._registry is not None:
            self._registry.crash(lost_power=lost_power)


class SimulatedCluster:
    """Brokers, a registry and a client's machine. Leaving the `with` stops the brokers that run, unless something failed."""

    def __init__(
        self,
        seed: int = 1,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        timing: RegistryTiming | None = None,
        first: BrokerId | None = None,  # starts alone, so that it is the controller
    ) -> None:
        self.world = World(seed)
        self._first = first
        self.store = SimulatedRegistryStore(self.world.randomness.stream("registry"), timing=timing)
        self.brokers = {
            broker_id: SimulatedBroker(
                broker_id,
                self.world.node(f"broker-{broker_id}"),
                self.store,
                dict(settings or {}),
                on_end=self._look_once_more,
            )
            for broker_id in range(1, brokers + 1)
        }
        self.checkers: list[Checker] = all_checkers() if brokers > 1 else []
        self._observer = Observer()
        self._registry_view = RegistryView(self.store.tree)
        self._looking: OwnedTask[None] | None = None

    def __enter__(self) -> Self:
        self.world.__enter__()
        if self._first is not None:
            self.brokers[self._first].start()
            self.until(lambda: self.controller is not None, "the first broker is the controller")
        for broker in self.brokers.values():
            if broker.broker_id != self._first:
                broker.start()
        if self.checkers:
            self.store.on_touched = self._look_at_states
            self._looking = self.world.loop.create_task(self._look())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.look()
                self._stop()
        finally:
            if self._looking is not None:
                self._looking.cancel()
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

    # Looking.

    def look(self) -> None:
        """Have every checker look at the cluster as it is now. Raises InvariantBroken."""
        with ExitStack() as stack:
            for broker in self.brokers.values():
                stack.enter_context(broker.standing_still())
            check(self.checkers, self.snapshot())

    def snapshot(self) -> Snapshot:
        """All replicas of running brokers, and the registry."""
        found = [
            (place, partition)
            for broker in self.brokers.values()
            for place in (broker.place,)
            for partition in broker.partitions()
        ]
        return Snapshot(
            now_ms=self.world.loop.time() * 1000,
            replicas=self._observer.replicas(found),
            states=self._registry_view.states,
        )

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """Leader and ISR of a partition as the registry has them."""
        return self._registry_view.states[topic_partition]

    def replica(self, broker_id: BrokerId, topic_partition: TopicPartition) -> ReplicaView | None:
        """One replica, if its broker runs and has opened it."""
        broker = self.brokers[broker_id]
        for partition in broker.partitions():
            if partition.topic_partition == topic_partition:
                return self._observer.view(broker.place, partition)
        return None

    def leader(self, topic_partition: TopicPartition) -> SimulatedBroker:
        """The broker that the registry names as leader."""
        return self.brokers[self.state(topic_partition).leader]

    @property
    def controller(self) -> SimulatedBroker | None:
        """The newest broker that believes to be the controller and runs."""
        return next((broker for broker in self.brokers.values() if broker.is_controller), None)

    # Waiting.

    def until(self, is_so: Callable[[], bool], what: str, *, within_ms: float = 60_000) -> None:
        """Let time pass until a fact holds; a fact that does not come in time fails the run."""
        deadline_ms = self.world.loop.time() * 1000 + within_ms
        while not is_so():
            if self.world.loop.time() * 1000 >= deadline_ms:
                raise TimeoutError(f"not within {within_ms:.0f} ms: {what}")
            self.world.run_for_ms(5)

    def until_ready(self) -> None:
        """All brokers whose processes run serve."""
        running = [broker for broker in self.brokers.values() if broker.node.is_running]
        self.until(lambda: all(broker.is_ready for broker in running), "every broker is ready")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_MS / 1000)
            self._look_once_more()

    def _look_at_states(self, paths: Sequence[str]) -> None:
        """The moment in which somebody enters an ISR or leads; a little later they may have caught up with what they lacked."""
        if any(path.endswith("/state") for path in paths):
            self._look_once_more()

    def _look_once_more(self) -> None:
        """What is broken fails the run even where nobody would hear it raised; a life that ends is seen as it ended."""
        try:
            self.look()
        except InvariantBroken as broken:
            self.world.loop.fail(self.world.loop.world, "a checker spoke", broken)
        except Exception as died:  # noqa: BLE001  # Else the looks end, or a broker gets what a checker raised, and nobody hears.
            self.world.loop.fail(self.world.loop.world, "a look at the cluster died", died)

    def _stop(self) -> None:
        for broker in self.brokers.values():
            if broker.node.is_running:
                self.world.run(broker.stop())


__all__ = ["InvariantBroken", "SimulatedBroker", "SimulatedCluster"]

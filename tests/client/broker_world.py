"""One production broker and one client host in a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from tidelog.broker import Broker
from tidelog.client import Admin, ClientConfig, ConsumerConfig, NewTopic, ProducerConfig
from tidelog.config import BrokerConfig
from tidelog.runtime import Runtime
from tidelog.simulation import World
from tidelog.simulation.fabric import NetworkFaults
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore

T = TypeVar("T")

BROKER, CLIENT = "broker-1", "client"
BOOTSTRAP = {"bootstrap.servers": f"{BROKER}:9092"}


def client_config(**settings: str) -> ClientConfig:
    return ClientConfig.from_properties(BOOTSTRAP | _named(settings))


def producer_config(**settings: str) -> ProducerConfig:
    return ProducerConfig.from_properties(BOOTSTRAP | _named(settings))


def consumer_config(**settings: str) -> ConsumerConfig:
    return ConsumerConfig.from_properties(BOOTSTRAP | {"auto.offset.reset": "earliest"} | _named(settings))


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


class BrokerWorld:
    """Use in a `with`; `tell` runs a story on the client's host."""

    def __init__(self, seed: int = 1, **broker_settings: str) -> None:
        self.world = World(seed)
        self._store = SimulatedRegistryStore(self.world.randomness.stream("registry"))
        self._config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "listeners": f"PLAINTEXT://{BROKER}:9092",
                "log.dirs": "/data",
                "auto.create.topics.enable": "false",
                **_named(broker_settings),
            }
        )
        self._broker: Broker | None = None
        self._registry: SimulatedRegistry | None = None

    def __enter__(self) -> BrokerWorld:
        self.world.__enter__()
        self.start_broker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and self.world.node(BROKER).is_running:
                self.stop_broker()
        finally:
            self.world.__exit__(kind, error, traceback)

    @property
    def runtime(self) -> Runtime:
        return self.world.node(CLIENT).runtime

    @property
    def network(self) -> NetworkFaults:
        return self.world.fabric.faults

    def tell(self, story: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        task = self.world.node(CLIENT).spawn(story(self.runtime))

        async def watch() -> T:
            return await task

        return self.world.run(watch())

    def create_topic(self, name: str = "t", *, partitions: int = 1, **configs: str) -> None:
        async def create(runtime: Runtime) -> None:
            async with Admin.connect(client_config(), runtime) as admin:
                topic = NewTopic(name=name, partition_count=partitions, replication_factor=1, configs=_named(configs))
                (result,) = await admin.create_topics([topic])
                assert result.is_ok, result

        self.tell(create)

    def start_broker(self) -> None:
        node = self.world.node(BROKER)
        node.start(self._main) if self._broker is None else node.restart()

    def kill_broker(self) -> None:
        self.world.node(BROKER).kill()
        if self._registry is not None:
            self._registry.crash()

    def stop_broker(self) -> None:
        async def stop() -> None:
            if self._broker is not None:
                self._broker.stop()
            await self._ended

        self.world.run(stop())

    async def _main(self, runtime: Runtime) -> None:
        self._registry = self._store.handle()
        self._broker = Broker(self._config, runtime, self._registry)
        self._ended = self.world.loop.create_future()
        try:
            await self._broker.run(on_ready=lambda _: None)
        finally:
            self._ended.set_result(None)

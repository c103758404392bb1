"""One production broker and one client host in a simulated world."""

from __future__ import annotations

from tidelog.client import Admin, ClientConfig, ConsumerConfig, NewTopic, ProducerConfig
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.fabric import NetworkFaults

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


class BrokerWorld(SimulatedCluster):
    """A cluster of one that makes no topics by itself; `tell` runs a story on the client's host."""

    def __init__(self, seed: int = 1, **broker_settings: str) -> None:
        super().__init__(seed, settings={"auto.create.topics.enable": "false", **_named(broker_settings)})

    @property
    def runtime(self) -> Runtime:
        return self.client.runtime

    @property
    def network(self) -> NetworkFaults:
        return self.world.fabric.faults

    def create_topic(self, name: str = "t", *, partitions: int = 1, **configs: str) -> None:
        async def create(runtime: Runtime) -> None:
            async with Admin.connect(client_config(), runtime) as admin:
                topic = NewTopic(name=name, partition_count=partitions, replication_factor=1, configs=_named(configs))
                (result,) = await admin.create_topics([topic])
                assert result.is_ok, result

        self.tell(create)

    def start_broker(self) -> None:
        self.brokers[1].restart()

    def kill_broker(self) -> None:
        self.brokers[1].kill()

    def stop_broker(self) -> None:
        self.world.run(self.brokers[1].stop())

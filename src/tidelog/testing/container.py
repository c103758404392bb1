"""A cluster in the shape of testcontainers' `KafkaContainer`, so that a test moves over with a change of its import."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tidelog.config import BROKER_SETTING_NAMES, ConfigError, from_environment
from tidelog.testing.cluster import Cluster
from tidelog.testing.errors import ClusterFailed


class KafkaContainer:
    """One broker. What is said about images, ports inside of containers and controllers is heard, and changes nothing.

    `with_env("KAFKA_NUM_PARTITIONS", "3")` sets what such variables set for Kafka's images; settings of listeners are the cluster's, and those
    that only Confluent's images have are passed over. What needs a container is refused with ClusterFailed.
    """

    def __init__(self, image: str = "", port: int = 9093, **_of_containers: object) -> None:
        self.image = image
        self.port = port
        self._environment: dict[str, str] = {}
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def with_env(self, key: str, value: str) -> Self:
        """A variable as Kafka's images take it."""
        self._environment[key] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Several of them."""
        self._environment |= variables
        return self

    def with_name(self, name: str) -> Self:
        """It has no name by which it could be found."""
        return self

    def with_exposed_ports(self, *ports: int | str) -> Self:
        """What it listens on is reached anyway."""
        return self

    def with_network(self, network: object) -> Self:
        """It is on this machine's."""
        return self

    def with_kwargs(self, **of_docker: object) -> Self:
        """There is no Docker to tell."""
        return self

    def waiting_for(self, strategy: object) -> Self:
        """`start` returns when it serves."""
        return self

    def with_bind_ports(self, container: int | str, host: int | str | None = None) -> Self:
        """Any free port is as good; a certain one cannot be had."""
        if host is not None:
            raise ClusterFailed(
                f"port {host} cannot be chosen: the cluster takes a free one, which get_bootstrap_server() tells"
            )
        return self

    def with_network_aliases(self, *aliases: str) -> Self:
        """Refused: whoever asks for that is in a container."""
        raise _needs_a_container(
            f"to be called {', '.join(aliases)}", "other containers cannot reach a broker on loopback"
        )

    def with_command(self, command: str) -> Self:
        """Refused."""
        raise _needs_a_container("a command", 'with_env("KAFKA_...", ...) sets what a broker can be told')

    def with_volume_mapping(self, host: object, container: str, mode: str = "ro") -> Self:
        """Refused."""
        raise _needs_a_container("a volume", "tidelog.testing.Cluster(data=DIR) keeps what its brokers have")

    def exec(self, command: object) -> Self:
        """Refused."""
        raise _needs_a_container(
            "to run a command in it", "tidelog topics, consume and the like do what Kafka's scripts do"
        )

    def with_kraft(self) -> Self:
        """There is nothing to choose."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:  # the shape of the other
        """A cluster makes its own."""
        return self

    def start(self, timeout: float = 60) -> Self:
        """Start, and wait until it serves. Raises ClusterFailed."""
        try:
            told = {name: value for name, value in self._environment.items() if not name.startswith(_OF_CONFLUENT)}
            given = from_environment(told, BROKER_SETTING_NAMES)
        except ConfigError as error:
            raise ClusterFailed(str(error)) from None
        config = {name: value for name, value in given.properties.items() if name not in _OF_CONTAINERS}
        self._cluster = Cluster(config=config, timeout_s=timeout)
        self._cluster.start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: FBT001, FBT002  # the shape of the other
        """End it; nothing is left."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def get_bootstrap_server(self) -> str:
        """host:port, for clients. Raises ClusterFailed before it was started."""
        return self._running.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Where it listens."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:  # there is one
        """The port for clients, whichever it would be inside of a container."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """What the broker has logged, and nothing."""
        return self._running.log(1).encode(), b""

    @property
    def _running(self) -> Cluster:
        if self._cluster is None:
            raise ClusterFailed("the container has not been started: use it as a context manager, or call start()")
        return self._cluster


def _needs_a_container(what: str, instead: str) -> ClusterFailed:
    return ClusterFailed(f"{what} needs a container, and this is a process: {instead}")


_OF_CONFLUENT = "KAFKA_CONFLUENT_"
_OF_CONTAINERS = frozenset(
    {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "node.id",
        "broker.id",
        "log.dirs",
        "log.dir",
        "process.roles",
        "controller.quorum.voters",
        "controller.listener.names",
        "zookeeper.connect",
    }
)

"""A cluster whose every link can be cut: brokers reach each other, and ZooKeeper, through small proxies on loopback.

Clients reach the brokers directly. A link leads *to* a broker: cutting it, nobody else reaches that broker, which still reaches the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.witness import Witness
from tests.compatibility.processes import TidelogCluster
from tests.tcp_link import TcpLink
from tests.zookeeper_ensemble import ZooKeeperEnsemble
from tidelog.testing.ports import free_ports

TOPIC: Final = "kept"
PARTITION_COUNT: Final = 6
BROKERS: Final = (1, 2, 3)
_LISTENERS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}
_SHORT_TIMES: Final = {
    "tidelog.registry.session.timeout.ms": "2000",
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "5",  # leaders come home while all this goes on
    "log.segment.bytes": "65536",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where faults happen."""

    cluster: TidelogCluster
    links: dict[int, TcpLink]  # to each broker
    ensemble: ZooKeeperEnsemble | None
    registry_links: dict[int, list[TcpLink]]  # from each broker to the members of the ensemble
    witness: Witness

    def others(self, broker_id: int) -> list[int]:
        """All brokers but one."""
        return [each for each in BROKERS if each != broker_id]


@contextmanager
def ground(directory: Path, *, ensemble: ZooKeeperEnsemble | None = None) -> Iterator[Ground]:
    """Three brokers that meet in an ensemble, or in a file where there is none, and the topic of the load."""
    with ExitStack() as stack:
        ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        links = {broker_id: stack.enter_context(TcpLink(port)) for broker_id, port in ports.items()}
        members = [] if ensemble is None else [int(each.rpartition(":")[2]) for each in ensemble.addresses]
        registry_links = {
            broker_id: [stack.enter_context(TcpLink(member)) for member in members] for broker_id in BROKERS
        }
        client_ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        own: dict[int, dict[str, str]] = {}
        for broker_id in BROKERS:
            client = f"PLAINTEXT://127.0.0.1:{client_ports[broker_id]}"
            own[broker_id] = {
                "listeners": f"{client},INTERNAL://127.0.0.1:{ports[broker_id]}",
                "advertised.listeners": f"{client},INTERNAL://{links[broker_id].address}",
            }
            if members:
                own[broker_id]["zookeeper.connect"] = ",".join(link.address for link in registry_links[broker_id])
        cluster = TidelogCluster(directory, {**_LISTENERS, **_SHORT_TIMES}, ports=client_ports, own=own)
        stack.enter_context(cluster)
        witness = Witness({broker_id: f"127.0.0.1:{port}" for broker_id, port in client_ports.items()}, TOPIC)
        witness.create_topic(PARTITION_COUNT)
        yield Ground(cluster=cluster, links=links, ensemble=ensemble, registry_links=registry_links, witness=witness)

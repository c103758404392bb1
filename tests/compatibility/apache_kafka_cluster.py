"""Three Apache Kafka brokers (KRaft, each also a controller) on the loopback interface, with the settings Kafka ships."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.compatibility.apache_kafka import POM, broker_command, run_tool, settings_of
from tests.compatibility.processes import RunningProcess
from tidelog.testing.ports import free_ports

_CLUSTER_ID: Final = "dGlkZWxvZy10ZXN0cy1rYQ"


class KafkaCluster:
    """Formatted when made; `started_s` is when the processes were begun, which is what a start is measured from."""

    def __init__(self, directory: Path, *, brokers: int = 3) -> None:
        ports = free_ports(2 * brokers)
        self._ports = dict(zip(range(1, brokers + 1), ports[:brokers], strict=True))
        self._controllers = dict(zip(range(1, brokers + 1), ports[brokers:], strict=True))
        self._directory = directory
        self._processes: dict[int, RunningProcess] = {}
        for broker_id in self._ports:
            self._format(broker_id)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self.started_s = 0.0
        self.start()

    def start(self) -> None:
        """Begin all brokers at once and wait until each serves."""
        self.started_s = time.monotonic()
        for broker_id in self._ports:
            self._begin(broker_id)
        for process in self._processes.values():
            process.wait_for(r"Kafka Server started")

    @property
    def pids(self) -> dict[int, int]:
        """The process of each broker that was started."""
        return {broker_id: process.pid for broker_id, process in self._processes.items()}

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""
        self._processes[broker_id].kill()

    def restart(self, broker_id: int) -> None:
        """Start a broker again on its data and wait until it serves."""
        self._begin(broker_id)
        self._processes[broker_id].wait_for(r"Kafka Server started")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()

    def _home(self, broker_id: int) -> Path:
        return self._directory / f"kafka-{broker_id}"

    def _begin(self, broker_id: int) -> None:
        config = self._home(broker_id) / "server.properties"
        self._processes[broker_id] = RunningProcess(broker_command(config, POM.with_name("log4j2.properties")))

    def _format(self, broker_id: int) -> None:
        home = self._home(broker_id)
        home.mkdir(parents=True, exist_ok=True)
        voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in self._controllers.items())
        settings = settings_of(self._ports[broker_id], self._controllers[broker_id], home / "data")
        settings |= {"node.id": str(broker_id), "controller.quorum.voters": voters}
        settings |= {
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
        }
        del settings["controller.quorum.bootstrap.servers"]
        config = home / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        run_tool("kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID, "--config", str(config))

"""Apache Kafka's own broker and tools, from Maven, as an oracle and a rival."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.compatibility.processes import ProcessFailed, RunningProcess
from tidelog.testing.ports import free_ports

ROOT: Final = Path(__file__).resolve().parents[2]
POM: Final = Path(__file__).with_name("maven") / "pom.xml"
CLIENTS_POM: Final = POM.with_name("clients-pom.xml")
TOOL_TIMEOUT_S: Final = 60
_FETCH_TIMEOUT_S: Final = 600


class ToolMissing(Exception):
    """A tool this machine needs is neither there nor could it be fetched; the message says how to get it."""


def version(pom: Path = POM) -> str:
    """The version of what the pom is about."""
    found = re.search(r"<(kafka|spark)\.version>(.+?)</\1\.version>", pom.read_text())
    if found is None:
        raise ToolMissing(f"{pom} names no kafka.version and no spark.version")
    return found[2]


def jars() -> Path:
    """The directory with Kafka's jars, fetched on first use."""
    return fetched(POM, ROOT / ".cache" / f"kafka-{version()}")


def old_client_jars() -> Path:
    """The directory with the jars of the last 3.x client, fetched on first use."""
    return fetched(CLIENTS_POM, ROOT / ".cache" / f"kafka-clients-{version(CLIENTS_POM)}")


def fetched(pom: Path, directory: Path) -> Path:
    """The directory, with the jars that the pom names; Maven brings them on first use. Raises ToolMissing."""
    if (directory / ".complete").exists():
        return directory
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            raise ToolMissing(f"`{program}` is not installed; on Debian: apt-get install maven default-jre-headless")
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"]
    options = [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ToolMissing(
            f"Maven could not fetch what {pom.name} names ({version(pom)}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    (directory / ".complete").touch()
    return directory


def java(main_class: str, *arguments: str) -> list[str]:
    """The command line that runs one of Kafka's short-lived programs."""
    return [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars()}/*",
        main_class,
        *arguments,
    ]


def run_tool(main_class: str, *arguments: str) -> str:
    """Run one of Kafka's tools to its end and return what it wrote. Raises ProcessFailed on a bad exit code."""
    command = java(main_class, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ProcessFailed(
            f"{main_class} {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def dump_log(*files: Path, deep: bool = False) -> str:
    """What kafka-dump-log says about segment, index or snapshot files."""
    options = ["--deep-iteration", "--print-data-log"] if deep else []
    return run_tool("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))


def restarted(directory: Path) -> RunningProcess:
    """The broker that lived in `directory`, started again on its data."""
    config = directory / "server.properties"
    process = RunningProcess(broker_command(config, POM.with_name("log4j2.properties")))
    listeners = next(line for line in config.read_text().splitlines() if line.startswith("advertised.listeners="))
    process.bootstrap = listeners.partition("PLAINTEXT://")[2].partition(",")[0]
    process.wait_for(r"Kafka Server started")
    return process


class KafkaProcess(RunningProcess):
    """A single-node Apache Kafka (KRaft) on the loopback interface, ready to serve."""

    def __init__(self, directory: Path, *, properties: dict[str, str] | None = None) -> None:
        port, controller_port = free_ports(2)
        self.log_dir = directory / "data"
        config = directory / "server.properties"
        directory.mkdir(parents=True, exist_ok=True)
        settings = settings_of(port, controller_port, self.log_dir) | (properties or {})
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        run_tool(
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            "dGlkZWxvZy10ZXN0cy1rYQ",
            "--config",
            str(config),
            "--standalone",
        )
        logging = POM.with_name("log4j2.properties")
        super().__init__(broker_command(config, logging))
        self.bootstrap = f"127.0.0.1:{port}"
        try:
            self.wait_for(r"Kafka Server started")
        except ProcessFailed:
            self.kill()
            raise

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self.bootstrap.rpartition(":")[2])


def broker_command(config: Path, logging: Path) -> list[str]:
    """The broker with the heap and collector Kafka's own start script gives it: it is also what we measure ourselves against."""
    flags = [
        "-Xmx1G",
        "-Xms1G",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
    ]
    flags += ["-XX:+ExplicitGCInvokesConcurrent", f"-Dlog4j2.configurationFile={logging}"]
    return ["java", *flags, "-cp", f"{jars()}/*", "kafka.Kafka", str(config)]


def settings_of(port: int, controller_port: int, log_dir: Path) -> dict[str, str]:
    """What a broker of one node is started with; else Kafka's defaults hold."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(log_dir),
        "num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }

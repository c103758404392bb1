"""Spark's own cluster manager, started from the pip package: a master and two workers, on two addresses of this machine.

Spark repeats a task that is slow only on another host than the one where it runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from tests.compatibility.processes import RunningProcess
from tests.pipeline.crash.rig import ROOT
from tests.pipeline.starting import BRIEF_JAVA
from tidelog.pipeline.java import find_java
from tidelog.testing.ports import free_ports

HOSTS: Final = ("127.0.0.1", "127.0.0.2")
SLOTS: Final = 4  # of each worker: more than there are cores, since many tasks only wait
_START_S: Final = 120

SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": BRIEF_JAVA,
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "500ms",
}
"""For drivers of such a cluster."""


class Standalone:
    """Use it as a context manager: leaving it ends all of it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = ExitStack()
        self._workers: list[RunningProcess] = []
        (port,) = free_ports(1)
        self.master = f"spark://{HOSTS[0]}:{port}"
        master = self._launch("master.Master", HOSTS[0], "--port", str(port))
        master.wait_for("New state: ALIVE", timeout_s=_START_S)
        for host in HOSTS:
            resources = ["--cores", str(SLOTS), "--memory", "1g", "--work-dir", str(home / f"work-{host}")]
            self._workers.append(self._launch("worker.Worker", host, *resources, self.master))
        for worker in self._workers:
            worker.wait_for("Successfully registered with master", timeout_s=_START_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _launch(self, name: str, host: str, *words: str) -> RunningProcess:
        self._home.mkdir(parents=True, exist_ok=True)
        spark = _spark_home()
        environment = {
            "SPARK_HOME": str(spark),
            "JAVA_HOME": str(find_java(os.environ).home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": BRIEF_JAVA,
        }
        command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
        transcript = self._home / f"{name}-{host}.log"
        process = RunningProcess(
            [*command, "--webui-port", "0", *words], environment=environment, transcript=transcript
        )
        return self._stack.enter_context(process)


def executor_of(worker_pid: int) -> int:
    """The executor that a Python worker belongs to: the worker is forked from a daemon, which the executor has started."""
    return _parent(_parent(worker_pid))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent

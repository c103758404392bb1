"""The brokers that are measured, each a process of its own, and the processor time it has used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.compatibility.apache_kafka import KafkaProcess
from tests.compatibility.processes import RunningProcess, TidelogProcess


class Target(NamedTuple):
    """A broker under load."""

    name: str
    bootstrap: str
    process: RunningProcess

    def cpu_seconds(self) -> float:
        """Processor time of all its threads since it started."""
        after_name = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(after_name[11]), int(after_name[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        """Memory it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def tidelog(directory: Path, *options: str) -> Iterator[Target]:
    """A Tidelog broker."""
    with TidelogProcess(directory / "tidelog", *options) as process:
        yield Target("tidelog", process.bootstrap, process)


@contextmanager
def kafka(directory: Path) -> Iterator[Target]:
    """An Apache Kafka broker."""
    with KafkaProcess(directory / "kafka") as process:
        yield Target("kafka", process.bootstrap, process)

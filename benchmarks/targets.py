"""The brokers that are measured, each a process of its own, and the processor time it has used."""

from __future__ import annotations

import os
import time
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
        # The process's own clock in nanoseconds (Linux makes its number of the pid): /proc counts in steps of 10 ms, too coarse here.
        return time.clock_gettime((~self.process.pid << 3) | 2)

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

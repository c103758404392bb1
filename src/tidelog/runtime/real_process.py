"""What the kernel knows of this process, in the names that Prometheus clients agree upon, and how idle its loop is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SELF: Final = Path("/proc/self")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_STARTED_FIELD: Final = 19  # of those behind the name of the program
_IDLE: Final = (
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
)
"""Kafka has threads for sockets and threads for requests; here one loop does the work of both."""


class ProcessReadings:
    """Asked in the thread of the loop, whose processor time it compares with that of the last time it was asked."""

    def __init__(self) -> None:
        self._asked_s = time.monotonic()
        self._busy_s = time.thread_time()

    def lines(self) -> Iterator[str]:
        """Processor, memory, files, disk; what this system does not tell is left out."""
        times = os.times()
        yield from _one("process_cpu_seconds_total", "counter", times.user + times.system)
        idle = self._idle_share()
        for name in _IDLE:
            yield from _one(name, "gauge", round(idle, 4))
        try:
            pages = int((_SELF / "statm").read_text().split()[1])
            yield from _one("process_resident_memory_bytes", "gauge", pages * _PAGE_BYTES)
            yield from _one("process_open_fds", "gauge", len(os.listdir(_SELF / "fd")))
            yield from _one("process_start_time_seconds", "gauge", round(_started_s(), 2))
            for key, name in (("read_bytes", "read"), ("write_bytes", "write")):
                count = _number_after(f"{key}: ", (_SELF / "io").read_text())
                yield from _one(f"kafka_server_kafkaserver_linux_disk_{name}_bytes", "counter", count)
        except (OSError, ValueError, IndexError):
            return

    def _idle_share(self) -> float:
        now_s, busy_s = time.monotonic(), time.thread_time()
        passed_s, worked_s = now_s - self._asked_s, busy_s - self._busy_s
        self._asked_s, self._busy_s = now_s, busy_s
        return 1.0 - min(worked_s / passed_s, 1.0) if passed_s > 0 else 0.0


def _started_s() -> float:
    """When this process was started, in seconds since the Unix epoch."""
    behind_name = (_SELF / "stat").read_text().rpartition(")")[2].split()
    booted_s = _number_after("btime ", Path("/proc/stat").read_text())
    return booted_s + int(behind_name[_STARTED_FIELD]) / _TICKS_PER_S


def _number_after(word: str, text: str) -> int:
    return next((int(line.removeprefix(word)) for line in text.splitlines() if line.startswith(word)), 0)


def _one(name: str, kind: str, value: float) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"

"""The world as five small interfaces: clock, disk, network, randomness, metrics.

Each has a real twin (`real.py` and its neighbours) and a simulated one (room `simulation`); both pass `tests/conformance`. Everything else
that waits uses plain asyncio, whose loop is itself replaced in simulation. Threads and child processes are reached only through the
executors of the disk, so that the simulated loop can turn them into seeded delays.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.runtime.clock import Clock
from tidelog.runtime.disk import Disk, DiskFull, File, FileMissing, StorageFailure
from tidelog.runtime.metrics import Counter, Gauge, Histogram, Metrics, Summary
from tidelog.runtime.network import Address, Listening, Network, NetworkFailure
from tidelog.runtime.randomness import Randomness

__all__ = [
    "Address",
    "Clock",
    "Counter",
    "Disk",
    "DiskFull",
    "File",
    "FileMissing",
    "Gauge",
    "Histogram",
    "Listening",
    "Metrics",
    "Network",
    "NetworkFailure",
    "Randomness",
    "Runtime",
    "StorageFailure",
    "Summary",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The world one node lives in."""

    clock: Clock
    disk: Disk
    network: Network
    randomness: Randomness
    metrics: Metrics

"""Metrics of a simulated process: the same instruments; they die with the process as real ones do."""

from __future__ import annotations

from tidelog.runtime.instruments import MemoryMetrics


class SimulatedMetrics(MemoryMetrics):
    """Readings of one incarnation of a node."""

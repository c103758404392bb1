"""What clients do to a simulated cluster while faults happen to it, one workload a file, written as users of the client would.

`prepare(cluster)` before the brokers start, `make_topics` once they are ready, then each of `default_workloads` in a task of the
client's machine until it is stopped. What the clients were told is in the `History`, which the checkers of the end read.
"""

from __future__ import annotations

from tidelog.simulation.workloads.defaults import default_workloads, prepare
from tidelog.simulation.workloads.history import CHURNED, SAFE, UNCLEAN, History, Told, is_promised
from tidelog.simulation.workloads.readers import laggards
from tidelog.simulation.workloads.topics import make_topics
from tidelog.simulation.workloads.workload import STOP_WITHIN_MS, Workload

__all__ = [
    "CHURNED",
    "SAFE",
    "STOP_WITHIN_MS",
    "UNCLEAN",
    "History",
    "Told",
    "Workload",
    "default_workloads",
    "is_promised",
    "laggards",
    "make_topics",
    "prepare",
]

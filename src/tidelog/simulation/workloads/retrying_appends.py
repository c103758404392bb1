"""Retrying appends without idempotence: a retry may write a value twice or out of order, but what is acknowledged is never lost."""

from __future__ import annotations

from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.sending import Sending, Writing
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS


class RetryingAppends(Sending):
    """acks=all, as programs older than idempotence write; compressed, so that logs hold both kinds of batches."""

    def __init__(self, name: str, bootstrap: str, history: History, randomness: SimulatedRandomness) -> None:
        writing = Writing(
            partitions=SAFE_PARTITIONS,
            settings={"acks": "all", "enable.idempotence": "false", "linger.ms": "20", "compression.type": "gzip"},
            pause_ms=(250, 500),
        )
        super().__init__(name, bootstrap, history, randomness, writing)

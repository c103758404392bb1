"""Careless appends: acks=1 or acks=0. Nobody promises that the values stay, only that what could be read does not vanish."""

from __future__ import annotations

from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.sending import Sending, Writing
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS, UNCLEAN_PARTITION


class CarelessAppends(Sending):
    """Writes beside the careful ones, so that logs have tails which only their leader has."""

    def __init__(
        self, name: str, bootstrap: str, history: History, randomness: SimulatedRandomness, *, acks: str
    ) -> None:
        writing = Writing(
            partitions=(*SAFE_PARTITIONS, UNCLEAN_PARTITION),
            settings={"acks": acks, "enable.idempotence": "false", "linger.ms": "20"},
            pause_ms=(300, 600),
        )
        super().__init__(name, bootstrap, history, randomness, writing)

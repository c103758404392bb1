"""Idempotent appends: every acknowledged value is in the log exactly once, and each producer's in the order it sent them."""

from __future__ import annotations

from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.sending import Sending, Writing
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS


class IdempotentAppends(Sending):
    """acks=all, numbered, several requests in flight. Restarted, the program asks for a new producer id every so many records."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        randomness: SimulatedRandomness,
        *,
        session_records_max: int | None = None,
    ) -> None:
        writing = Writing(
            partitions=SAFE_PARTITIONS,
            settings={
                "acks": "all",
                "enable.idempotence": "true",
                "linger.ms": "5",
                "max.in.flight.requests.per.connection": "5",
            },
            pause_ms=(120, 400),
            session_records_max=session_records_max,
        )
        super().__init__(name, bootstrap, history, randomness, writing)

"""The world as it is. Only the command line, what Spark starts, and clients that are given addresses use it; and tests."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from uuid import UUID

from tidelog.model import TimestampMs
from tidelog.runtime import Runtime
from tidelog.runtime.instruments import MemoryMetrics
from tidelog.runtime.real_disk import RealDisk
from tidelog.runtime.real_network import RealNetwork
from tidelog.runtime.real_process import ProcessReadings

__all__ = ["RealClock", "RealDisk", "RealMetrics", "RealNetwork", "RealRandomness", "real_runtime"]


def real_runtime(disk: RealDisk | None = None) -> Runtime:
    """A fresh real world for one node, on this disk if one is given; close its disk when the node stops."""
    return Runtime(
        clock=RealClock(),
        disk=RealDisk() if disk is None else disk,
        network=RealNetwork(),
        randomness=RealRandomness(),
        metrics=RealMetrics(),
    )


class RealClock:
    """The clocks of this machine."""

    def monotonic_ms(self) -> float:
        """The clock both asyncio and uvloop count in."""
        return time.monotonic() * 1000

    def wall_ms(self) -> TimestampMs:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def give_way(self) -> None:
        """A call of the system of a microsecond, if nobody waits."""
        os.sched_yield()


class RealRandomness:
    """A generator seeded by the operating system."""

    def __init__(self) -> None:
        self._source = random.Random(os.urandom(32))  # noqa: S311  # identifiers and jitter, no secrets

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return self._source.randrange(bound)

    def fraction(self) -> float:
        """A float in [0, 1)."""
        return self._source.random()

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        return self._source.randbytes(count)

    def uuid(self) -> UUID:
        """A random (version 4) identifier whose base64 form does not begin with '-' (value 62), which command lines would misread."""
        while True:
            drawn = self._source.randbytes(16)
            if drawn[0] >> 2 != 62:
                return UUID(bytes=drawn, version=4)


class RealMetrics(MemoryMetrics):
    """What was counted, and readings of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._process = ProcessReadings()

    def lines(self) -> Iterator[str]:
        """Everything in the Prometheus text format."""
        yield from super().lines()
        yield from self._process.lines()

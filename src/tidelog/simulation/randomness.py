"""Seeded chance, in independent streams, so that one more draw for the network does not shift what the scheduler draws."""

from __future__ import annotations

import random
from uuid import UUID


class SimulatedRandomness:
    """A stream of chance named by its seed. Equal seeds give equal draws on every run, machine and PYTHONHASHSEED."""

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = str(seed)
        self._source = random.Random(self.seed)  # A string is seeded through SHA-512, never through hash().

    def stream(self, name: str) -> SimulatedRandomness:
        """The stream of this name below this one; asking again starts it again. Drawing from one moves no other."""
        return SimulatedRandomness(f"{self.seed}/{name}")

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return self._source.randrange(bound)

    def fraction(self) -> float:
        """A float in [0, 1)."""
        return self._source.random()

    def between(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return low + (high - low) * self._source.random()

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        return self._source.randbytes(count)

    def uuid(self) -> UUID:
        """A (version 4) identifier whose base64 form does not begin with '-'."""
        while True:
            drawn = self._source.randbytes(16)
            if drawn[0] >> 2 != 62:
                return UUID(bytes=drawn, version=4)

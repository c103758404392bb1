"""Chance, injected so that a simulation can repeat it."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID


class Randomness(Protocol):
    """Good enough for identifiers, jitter and spreading; not for secrets."""

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        ...

    def fraction(self) -> float:
        """A float in [0, 1)."""
        ...

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        ...

    def uuid(self) -> UUID:
        """A random (version 4) identifier; never the zero one, nor one whose base64 form begins with '-'."""
        ...

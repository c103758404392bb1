"""How many faults were drawn, and how many of them really acted: a seed without a dose proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Doses:
    """Faults by kind. One that met nothing to act on (the kill of a dead broker) is drawn but not injected."""

    def __init__(self) -> None:
        self._drawn: Counter[str] = Counter()
        self._injected: Counter[str] = Counter()

    def draw(self, kind: str) -> None:
        """A fault stands in the plan."""
        self._drawn[kind] += 1

    def inject(self, kind: str) -> None:
        """A fault acted."""
        self._injected[kind] += 1

    @property
    def drawn(self) -> Mapping[str, int]:
        """How many faults of each kind the plan has, in the order of the kinds' names."""
        return dict(sorted(self._drawn.items()))

    @property
    def injected(self) -> Mapping[str, int]:
        """How many faults of each kind acted, in the order of the kinds' names."""
        return dict(sorted(self._injected.items()))

    @property
    def drawn_total(self) -> int:
        """How many faults the plan has."""
        return self._drawn.total()

    @property
    def injected_total(self) -> int:
        """How many faults acted."""
        return self._injected.total()

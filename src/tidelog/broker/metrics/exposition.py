"""Series as Prometheus reads them: families of one name and one kind, each sample with its labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import invariant
from tidelog.runtime.instruments import braces, number

_COUNTER: Final = "counter"
_GAUGE: Final = "gauge"


class _Family(NamedTuple):
    kind: str
    samples: list[str]


class Exposition:
    """What one look has seen so far."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def gauge(self, name: str, value: float, **labels: object) -> None:
        """A value that goes up and down."""
        self._add(name, _GAUGE, value, labels)

    def counter(self, name: str, value: float, **labels: object) -> None:
        """A value that only grows while the broker lives; by convention its name ends in `_total`."""
        self._add(name, _COUNTER, value, labels)

    def lines(self) -> Iterator[str]:
        """All families by name, the samples of each in the order in which they were seen."""
        for name in sorted(self._families):
            family = self._families[name]
            yield f"# TYPE {name} {family.kind}"
            yield from family.samples

    def _add(self, name: str, kind: str, value: float, labels: dict[str, object]) -> None:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = _Family(kind, [])
        invariant(family.kind == kind, "a family has one kind")
        told = braces(tuple((label, str(each)) for label, each in labels.items()))
        family.samples.append(f"{name}{told} {number(value)}")

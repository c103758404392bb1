"""The instruments themselves, kept in memory and rendered as Prometheus text. Touches no world, so both twins of `Metrics` are this."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, TypeAlias, TypeVar

from tidelog.model import invariant

MILLISECOND_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
BYTE_BUCKETS: Final = tuple(4**exponent for exponent in range(3, 15))
QUANTILES: Final = {"0.50": 0.5, "0.75": 0.75, "0.95": 0.95, "0.99": 0.99, "0.999": 0.999}
SUMMARY_KEEPS: Final = 1_024

Labels: TypeAlias = tuple[tuple[str, str], ...]


class MemoryCounter:
    """A number that only grows."""

    kind: Final = "counter"
    __slots__ = ("reading",)

    def __init__(self, name: str) -> None:
        self.reading = 0.0

    def add(self, amount: float = 1) -> None:
        """Count `amount` more."""
        invariant(amount >= 0, "a counter only grows")
        self.reading += amount

    def samples(self, name: str, labels: Labels) -> list[str]:
        """The lines of the exposition."""
        return [f"{name}{braces(labels)} {number(self.reading)}"]


class MemoryGauge:
    """A number that goes up and down."""

    kind: Final = "gauge"
    __slots__ = ("reading",)

    def __init__(self, name: str) -> None:
        self.reading = 0.0

    def set(self, value: float) -> None:
        """The value is now `value`."""
        self.reading = value

    def samples(self, name: str, labels: Labels) -> list[str]:
        """The lines of the exposition."""
        return [f"{name}{braces(labels)} {number(self.reading)}"]


class MemoryHistogram:
    """Counts per bucket. Names that end in `_bytes` get byte buckets, all others milliseconds."""

    kind: Final = "histogram"
    __slots__ = ("_bounds", "_counts", "reading", "total")

    def __init__(self, name: str) -> None:
        self._bounds: tuple[float, ...] = BYTE_BUCKETS if name.endswith("_bytes") else MILLISECOND_BUCKETS
        self._counts = [0] * (len(self._bounds) + 1)
        self.reading = 0.0
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.reading += 1
        self.total += value

    def samples(self, name: str, labels: Labels) -> list[str]:
        """The lines of the exposition: cumulative buckets, sum, count."""
        bounds = [*(number(bound) for bound in self._bounds), "+Inf"]
        lines = [
            f"{name}_bucket{braces((*labels, ('le', bound)))} {count}"
            for bound, count in zip(bounds, accumulate(self._counts), strict=True)
        ]
        told = braces(labels)
        return [*lines, f"{name}_sum{told} {number(self.total)}", f"{name}_count{told} {number(self.reading)}"]


class MemorySummary:
    """Count, sum, and the latest observations, whose quantiles are told. Observing costs a store into a ring."""

    kind: Final = "summary"
    __slots__ = ("_kept", "reading", "total")

    def __init__(self, name: str) -> None:
        self._kept: list[float] = []
        self.reading = 0.0
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation; the oldest one that is kept makes room for it."""
        kept = self._kept
        if len(kept) < SUMMARY_KEEPS:
            kept.append(value)
        else:
            kept[int(self.reading) % SUMMARY_KEEPS] = value
        self.reading += 1
        self.total += value

    def samples(self, name: str, labels: Labels) -> list[str]:
        """The lines of the exposition: quantiles of what is kept, sum, count. Quantiles of nothing are not told."""
        ordered = sorted(self._kept)
        lines = [
            f"{name}{braces((*labels, ('quantile', text)))} {number(ordered[min(int(share * len(ordered)), len(ordered) - 1)])}"
            for text, share in QUANTILES.items()
            if ordered
        ]
        told = braces(labels)
        return [*lines, f"{name}_sum{told} {number(self.total)}", f"{name}_count{told} {number(self.reading)}"]


Instrument: TypeAlias = MemoryCounter | MemoryGauge | MemoryHistogram | MemorySummary
I = TypeVar("I", MemoryCounter, MemoryGauge, MemoryHistogram, MemorySummary)  # noqa: E741


class MemoryMetrics:
    """All instruments of one node. A name has one kind for ever."""

    def __init__(self) -> None:
        self._families: dict[str, dict[Labels, Instrument]] = {}

    def counter(self, name: str, **labels: str) -> MemoryCounter:
        """A counter; by convention its name ends in `_total`."""
        return self._instrument(MemoryCounter, name, labels)

    def gauge(self, name: str, **labels: str) -> MemoryGauge:
        """A gauge."""
        return self._instrument(MemoryGauge, name, labels)

    def histogram(self, name: str, **labels: str) -> MemoryHistogram:
        """A histogram of milliseconds or bytes."""
        return self._instrument(MemoryHistogram, name, labels)

    def summary(self, name: str, **labels: str) -> MemorySummary:
        """A summary of milliseconds."""
        return self._instrument(MemorySummary, name, labels)

    def value(self, name: str, **labels: str) -> float:
        """The current reading of a counter or gauge, or the observation count of a distribution; 0 where nothing was counted."""
        instrument = self._families.get(name, {}).get(_key(labels))
        return 0.0 if instrument is None else instrument.reading

    def lines(self) -> Iterator[str]:
        """Everything in the Prometheus text format, in name and label order."""
        for name, family in sorted(self._families.items()):
            yield f"# TYPE {name} {next(iter(family.values())).kind}"
            for labels, instrument in sorted(family.items(), key=lambda item: item[0]):
                yield from instrument.samples(name, labels)

    def render(self) -> str:
        """The lines as one text."""
        return "".join(f"{line}\n" for line in self.lines())

    def _instrument(self, kind: type[I], name: str, labels: dict[str, str]) -> I:
        family = self._families.setdefault(name, {})
        instrument = family.get(_key(labels))
        if instrument is None:
            invariant(all(type(other) is kind for other in family.values()), f"metric {name} has one kind")
            instrument = family[_key(labels)] = kind(name)
        invariant(type(instrument) is kind, f"metric {name} has one kind")
        return instrument  # type: ignore[return-value]  # just checked; mypy does not narrow by `type() is`


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def braces(labels: Labels) -> str:
    """Labels as the exposition has them."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A reading as the exposition has it."""
    return str(int(value)) if value == int(value) else repr(value)

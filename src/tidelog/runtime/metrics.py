"""Numbers about ourselves. Names are those the dashboards of the field already know (`kafka_server_...`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Counter(Protocol):
    """Only grows."""

    def add(self, amount: float = 1) -> None:
        """Count `amount` more."""
        ...


class Gauge(Protocol):
    """Goes up and down."""

    def set(self, value: float) -> None:
        """The value is now `value`."""
        ...


class Histogram(Protocol):
    """A distribution, kept as counts per bucket."""

    def observe(self, value: float) -> None:
        """Count one observation."""
        ...


class Summary(Protocol):
    """A distribution of which the latest observations are kept, for quantiles of what happens now."""

    def observe(self, value: float) -> None:
        """Count one observation."""
        ...


class Metrics(Protocol):
    """Asking twice for the same name and labels gives the same instrument."""

    def counter(self, name: str, **labels: str) -> Counter:
        """A counter; by convention its name ends in `_total`."""
        ...

    def gauge(self, name: str, **labels: str) -> Gauge:
        """A gauge."""
        ...

    def histogram(self, name: str, **labels: str) -> Histogram:
        """A histogram of milliseconds or bytes."""
        ...

    def summary(self, name: str, **labels: str) -> Summary:
        """A summary of milliseconds."""
        ...

    def value(self, name: str, **labels: str) -> float:
        """The current reading of a counter or gauge, or the observation count of a distribution; 0 where nothing was counted."""
        ...

    def lines(self) -> Iterator[str]:
        """Everything in the Prometheus text format, line by line, so that whoever writes them down can pause."""
        ...

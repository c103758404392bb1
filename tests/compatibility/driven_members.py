"""Java and JavaScript clients as members of a group: many in one process, which a driver tells what to do.

A member is told as little as its users tell it; what is said besides makes a test shorter (how often it says that it is alive).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final, NamedTuple, Self

from tests.compatibility.drivers import Driver

_CLASSIC: Final = {"session.timeout.ms": "30000", "heartbeat.interval.ms": "500"}
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "range": {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor", **_CLASSIC},
    "cooperative": {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        **_CLASSIC,
    },
    "consumer": {"group.protocol": "consumer"},
    "kafkajs": {**_CLASSIC, "session.timeout.ms": "6000"},
}
_numbers: Final = count()


class _Seen(NamedTuple):
    owned: frozenset[int]
    rebalances: int
    values: list[bytes]


class DrivenMember:
    """A member of a group. Use it as a context manager: leaving it leaves the group."""

    def __init__(
        self, driver: Driver, kind: str, topic: str, group_id: str | None = None, instance_id: str | None = None
    ) -> None:
        self.group_id = topic if group_id is None else group_id
        self._driver = driver
        self._name = f"member-{next(_numbers)}"
        settings = {"group.id": self.group_id, **KINDS[kind]}
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self._last: _Seen | None = None
        driver.ask("join", self._name, topic, " ".join(f"{name}={value}" for name, value in settings.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Close the client; a static member's place stays free for it. What it has read is still known."""
        if self._last is None:
            self._last = self._ask("leave")

    @property
    def owned(self) -> frozenset[int]:
        """The partitions it owns at present."""
        return self._look().owned

    @property
    def rebalances(self) -> int:
        """How often it was told what it owns."""
        return self._look().rebalances

    @property
    def values(self) -> list[bytes]:
        """All values read so far, in order within each partition."""
        return self._look().values

    def _look(self) -> _Seen:
        return self._ask("look") if self._last is None else self._last

    def _ask(self, command: str) -> _Seen:
        ((owned, rebalances, values),) = self._driver.ask(command, self._name)
        return _Seen(frozenset(map(int, owned.split())), int(rebalances), [value.encode() for value in values.split()])

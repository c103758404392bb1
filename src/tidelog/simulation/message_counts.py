"""Counting the messages of each host, so that something can be made to happen at every one of them."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.simulation.links import Host
from tidelog.simulation.transport import Segment


class MessageCounts:
    """How many messages each host has sent and received, and what is to happen at which."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._to_come: dict[str, tuple[int, Callable[[], None]]] = {}

    def of(self, name: str) -> int:
        """How many messages a host has sent and received."""
        return self._counts.get(name, 0)

    def after(self, name: str, count: int, action: Callable[[], None]) -> None:
        """Once: do this when a host has sent or received `count` more messages, the last of which it has sent, or not yet read."""
        self._to_come[name] = (self.of(name) + count, action)

    def count(self, host: Host, segment: Segment) -> None:
        """One more, if it is a message; and what was to happen at it."""
        if not isinstance(segment, bytes):
            return
        self._counts[host.name] = count = self._counts.get(host.name, 0) + 1
        if not self._to_come:
            return
        due, action = self._to_come.get(host.name, (0, None))
        if action is not None and count >= due:
            del self._to_come[host.name]
            action()

"""Time that passes only when somebody lets it."""

from __future__ import annotations


class VirtualTime:
    """What an event loop tells of its own time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def time_ms(self) -> float:
        """The same in milliseconds, as clocks and traces want it."""
        return self._now * 1000

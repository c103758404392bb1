"""Sessions and watches of the simulated registry, as both ends know them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

from tidelog.registry.protocol import SessionId

SESSION_TIMEOUT_MS: Final = 9_000
KILL_DETECTION_MS: Final = 200  # on average; between half of it and one and a half


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTiming:
    """How fast the simulated registry is."""

    latency_ms_max: float = 2.0  # of a round trip
    watch_delay_ms_max: float = 50.0
    unreachable_ms_max: float = 1_000.0  # how long a call of a node that is cut off waits before it gives up
    session_timeout_ms: float = SESSION_TIMEOUT_MS
    kill_detection_ms: float = KILL_DETECTION_MS


@dataclass(slots=True, kw_only=True)
class CutToCome:
    """A fault that waits for so many writes; it can be taken back until then."""

    writes_left: int
    is_last_write_done: bool
    has_come: bool = False
    is_cancelled: bool = False

    def comes_with_this_write(self) -> bool:
        """Count one more write."""
        if self.is_cancelled:
            return False
        self.has_come = self.writes_left <= 0  # below, if the last write was refused: then the next one is the last
        self.writes_left -= 1
        return self.has_come

    def cancel(self) -> None:
        """Take it back, if it has not come to that."""
        self.is_cancelled = True


class SimulatedWatch:
    """An interest in a node; changes that come while a word is on its way are told with it."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.is_on_its_way = False
        self._on_change: Callable[[], None] | None = on_change

    def cancel(self) -> None:
        """Nothing more is told."""
        self._on_change = None

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody listens any more."""
        return self._on_change is None

    def arrive(self) -> None:
        """The word has reached the watcher."""
        self.is_on_its_way = False
        if self._on_change is not None:
            self._on_change()


@dataclass(slots=True, eq=False, kw_only=True)
class SimulatedSession:
    """What both ends know of a session."""

    id: SessionId
    node_name: str
    context: Context  # of the owner's process: what it hears, it hears while it runs
    loop: asyncio.AbstractEventLoop
    is_over: asyncio.Event = field(default_factory=asyncio.Event)  # for the owner, who learns it last
    watches: dict[str, list[SimulatedWatch]] = field(default_factory=dict)
    is_silent: bool = False  # the owner will not beat again
    beat: asyncio.TimerHandle | None = None
    deadline: asyncio.TimerHandle | None = None

    def fall_silent(self) -> None:
        """The owner beats and listens no more."""
        self.is_silent = True
        if self.beat is not None:
            self.beat.cancel()
        for watch in [watch for watches in self.watches.values() for watch in watches]:
            watch.cancel()

    def end(self) -> None:
        """The owner learns that it is over."""
        self.fall_silent()
        self.is_over.set()

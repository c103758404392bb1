"""Hosts and the links between them, which can be cut, mended, slowed and parted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tidelog.simulation.loop import Process, SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.transport import Signal, SimulatedTransport

_LOOPBACK_LATENCY_MS: Final = (0.01, 0.05)
LATENCY_MS: Final = (0.1, 1.0)
_RETRANSMIT_MS: Final = (10.0, 400.0)
_RESEND_AFTER_MS: Final = 200.0  # Linux waits no shorter
_RESENDS_MAX: Final = 5
_FIRST_PORT: Final = 32_768


@dataclass(slots=True)
class Link:
    """The way from one host to another; the way back is another link."""

    latency_ms: tuple[float, float] = LATENCY_MS
    bytes_per_ms: float | None = None
    reset_chance: float = 0.0
    loss_chance: float = 0.0
    is_cut: bool = False
    free_at_ms: float = 0.0
    held: list[Callable[[], None]] = field(default_factory=list)

    def travel_ms(self, randomness: SimulatedRandomness) -> float:
        """How long one chunk is under way; one that is lost is sent again after a timeout that doubles each time, as TCP does."""
        travel_ms = randomness.between(*self.latency_ms)
        if self.loss_chance:
            timeout_ms = _RESEND_AFTER_MS
            for _ in range(_RESENDS_MAX):
                if randomness.fraction() >= self.loss_chance:
                    break
                travel_ms += timeout_ms
                timeout_ms *= 2
        return travel_ms


@dataclass(slots=True, kw_only=True)
class Listener:
    """A bound port."""

    factory: Callable[[], asyncio.Protocol]
    process: Process
    is_loopback_only: bool


class Host:
    """A machine: its name is its address. Outlives its processes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = True
        self.listeners: dict[int, Listener] = {}
        self.transports: dict[SimulatedTransport, None] = {}
        self.silenced: list[SimulatedTransport] = []
        self._next_port = _FIRST_PORT

    def pick_port(self) -> int:
        """A port nobody had before."""
        while self._next_port in self.listeners:
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


class NetworkFaults:
    """All hosts of a world, the ways between them, and what can be done to those. A cut loses nothing for good: TCP retransmits."""

    def __init__(self, loop: SimulatedLoop, randomness: SimulatedRandomness) -> None:
        self.loop = loop
        self.reset_count = 0
        self._randomness = randomness
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}

    def host(self, name: str) -> Host:
        """The machine of this name, which exists from now on."""
        if name not in self._hosts:
            self._hosts[name] = Host(name)
        return self._hosts[name]

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every machine there is by now, in the order in which they came."""
        return tuple(self._hosts)

    def link(self, source: str, target: str) -> Link:
        """The way from one host to another, to be read or made worse."""
        key = (source, target)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(_LOOPBACK_LATENCY_MS) if source == target else Link()
        return link

    def cut(self, source: str, target: str) -> None:
        """Nothing passes from `source` to `target`; the other way is left alone."""
        self.link(source, target).is_cut = True

    def mend(self, source: str, target: str) -> None:
        """What was held back passes, after the retransmission it takes."""
        link = self.link(source, target)
        link.is_cut = False
        held, link.held = link.held, []
        delay_ms = self._randomness.between(*_RETRANSMIT_MS)
        for release in held:
            self._later(delay_ms, release)

    def partition(self, ones: Iterable[str], others: Iterable[str]) -> None:
        """Cut every link between the two groups, both ways."""
        others = list(others)
        for one in ones:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def isolate(self, name: str) -> None:
        """Cut a host off from every other host there is by now."""
        self.partition([name], [other for other in self._hosts if other != name])

    def heal(self) -> None:
        """All links as new."""
        for (source, target), link in list(self._links.items()):
            link.reset_chance = link.loss_chance = 0.0
            link.bytes_per_ms = None
            link.free_at_ms = 0.0
            link.latency_ms = _LOOPBACK_LATENCY_MS if source == target else LATENCY_MS
            self.mend(source, target)

    def slow(
        self, source: str, target: str, *, latency_ms: tuple[float, float], bytes_per_ms: float | None = None
    ) -> None:
        """From now on the way takes this long, and carries this much."""
        link = self.link(source, target)
        link.latency_ms = latency_ms
        link.bytes_per_ms = bytes_per_ms

    def reset(self, one: str, other: str) -> int:
        """Every connection between two hosts is reset at both ends (a firewall forgets them); how many there were."""
        transports = [t for t in self.host(one).transports if t.peer.host.name == other]
        for transport in transports:
            self._reset(transport)
        return len(transports)

    def _reset(self, transport: SimulatedTransport) -> None:
        self.reset_count += 1
        for end in (transport, transport.peer):
            end.wire.clear()
            end.receive(Signal.RESET)

    def _later(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.loop.call_at(self.loop.time() + delay_ms / 1000, action, context=self.loop.world.context)

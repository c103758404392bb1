"""What lies between simulated nodes: hosts, links with latency, bandwidth and cuts, and the wire that keeps each connection in order.

A cut link loses nothing for good: TCP retransmits, so segments wait and go on when the link is mended. One way may be cut alone; then
acknowledgements are held and the sender's window fills.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tidelog.runtime.network import Address, NetworkFailure
from tidelog.simulation.loop import Process, SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.trace import Trace
from tidelog.simulation.transport import Segment, Signal, SimulatedTransport

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_LOOPBACK_LATENCY_MS: Final = (0.01, 0.05)
_LATENCY_MS: Final = (0.1, 1.0)
_RETRANSMIT_MS: Final = (10.0, 400.0)
_CONNECT_TIMEOUT_MS: Final = 127_000.0  # Linux gives up after six retries of the SYN.
_FIRST_PORT: Final = 32_768
_SPLIT_CHANCE: Final = 0.1


@dataclass(slots=True)
class Link:
    """The way from one host to another; the way back is another link."""

    latency_ms: tuple[float, float] = _LATENCY_MS
    bytes_per_ms: float | None = None
    reset_chance: float = 0.0
    is_cut: bool = False
    free_at_ms: float = 0.0
    held: list[Callable[[], None]] = field(default_factory=list)


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


class Fabric:
    """All hosts and all links of one world."""

    def __init__(self, loop: SimulatedLoop, randomness: SimulatedRandomness, trace: Trace) -> None:
        self.loop = loop
        self.delivered_bytes = 0
        self.reset_count = 0
        self.held_count = 0
        self._randomness = randomness
        self._trace = trace
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._last_arrival: dict[SimulatedTransport, float] = {}

    def host(self, name: str) -> Host:
        """The machine of this name, which exists from now on."""
        if name not in self._hosts:
            self._hosts[name] = Host(name)
        return self._hosts[name]

    def link(self, source: str, target: str) -> Link:
        """The way from one host to another, to be read or made worse."""
        key = (source, target)
        if key not in self._links:
            self._links[key] = Link(_LOOPBACK_LATENCY_MS) if source == target else Link()
        return self._links[key]

    # Faults.

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
            link.reset_chance = 0.0
            link.bytes_per_ms = None
            link.latency_ms = _LOOPBACK_LATENCY_MS if source == target else _LATENCY_MS
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

    # Life and death of hosts and processes.

    def process_died(self, host: Host, process: Process) -> None:
        """kill -9, or the end of main: the kernel closes listeners and connections."""
        self._close_listeners(host, process)
        for transport in [each for each in host.transports if each.process is process]:
            transport.lose_process()

    def power_lost(self, host: Host, process: Process) -> None:
        """The host answers nothing; its peers hear nothing."""
        self._close_listeners(host, process)
        host.is_up = False
        for transport in list(host.transports):
            transport.lose_power()
            host.silenced.append(transport)

    def power_back(self, host: Host) -> None:
        """The host knows no old connection; peers that were still sending are reset when they retransmit."""
        host.is_up = True
        silenced, host.silenced = host.silenced, []
        for transport in silenced:
            if transport.peer.in_flight:
                self._later(self._randomness.between(0, 3_000), partial(self.transmit, transport, Signal.RESET))

    # Connections.

    def resolve(self, host: Host, address: Address) -> Host:
        """The host an address names, seen from `host`."""
        if address.host in ("", "0.0.0.0", "::", *LOOPBACK_NAMES):  # noqa: S104
            return host
        if address.host not in self._hosts:
            raise NetworkFailure(address, "Name or service not known")
        return self._hosts[address.host]

    def pair(
        self, client: Host, process: Process, server: Host, address: Address
    ) -> tuple[SimulatedTransport, SimulatedTransport]:
        """Both ends of a new connection to a listener of `server`, the client's first."""
        is_local = client is server
        client_name = ("127.0.0.1" if is_local else client.name, client.pick_port())
        server_name = ("127.0.0.1" if is_local else server.name, address.port)
        listener = server.listeners[address.port]
        near = SimulatedTransport(self, client, process, names={"sockname": client_name, "peername": server_name})
        far = SimulatedTransport(
            self, server, listener.process, names={"sockname": server_name, "peername": client_name}
        )
        near.peer, far.peer = far, near
        client.transports[near] = None
        server.transports[far] = None
        return near, far

    async def travel(self, source: Host, target: Host, address: Address) -> None:
        """The time a connection request takes, or NetworkFailure after the retries a kernel makes."""
        link = self.link(source.name, target.name)
        waited_ms, delay_ms = 0.0, 1_000.0
        while link.is_cut or not target.is_up:
            if waited_ms >= _CONNECT_TIMEOUT_MS:
                raise NetworkFailure(address, "Connection timed out")
            await asyncio.sleep(delay_ms / 1000)
            waited_ms += delay_ms
            delay_ms *= 2
        await asyncio.sleep(self._randomness.between(*link.latency_ms) / 1000)

    def transmit(self, sender: SimulatedTransport, segment: Segment) -> None:
        """Put a segment on the wire behind everything this end sent before."""
        link = self.link(sender.host.name, sender.peer.host.name)
        if isinstance(segment, bytes) and link.reset_chance and self._randomness.fraction() < link.reset_chance:
            self._reset(sender)
            return
        for piece in self._split(segment):
            size = len(piece) if isinstance(piece, bytes) else 0
            now_ms = self.loop.time() * 1000
            pace_ms = size / link.bytes_per_ms if link.bytes_per_ms else 0.0
            link.free_at_ms = max(link.free_at_ms, now_ms) + pace_ms
            arrival_ms = link.free_at_ms + self._randomness.between(*link.latency_ms)
            arrival_ms = max(arrival_ms, self._last_arrival.get(sender, 0.0))
            self._last_arrival[sender] = arrival_ms
            sender.wire.append(piece)
            self._later(arrival_ms - now_ms, partial(self._arrive, sender, link))

    def acknowledge(self, receiver: SimulatedTransport, size: int) -> None:
        """Tell the sender that its bytes were taken, if the way back is open."""
        link = self.link(receiver.host.name, receiver.peer.host.name)
        if link.is_cut:
            link.held.append(partial(receiver.peer.credit, size))
        else:
            receiver.peer.credit(size)

    def forget(self, transport: SimulatedTransport) -> None:
        """This end is closed."""
        transport.host.transports.pop(transport, None)

    def _arrive(self, sender: SimulatedTransport, link: Link) -> None:
        if link.is_cut:
            self.held_count += 1
            link.held.append(partial(self._arrive, sender, link))
            return
        receiver = sender.peer
        if not sender.wire or not receiver.host.is_up:
            return
        segment = sender.wire.popleft()
        if isinstance(segment, bytes):
            self.delivered_bytes += len(segment)
        self._trace.fold(sender.host.name, receiver.host.name, segment if isinstance(segment, bytes) else segment.value)
        if not sender.wire:
            self._last_arrival.pop(sender, None)
        receiver.receive(segment)

    def _split(self, segment: Segment) -> list[Segment]:
        if not isinstance(segment, bytes) or len(segment) < 2 or self._randomness.fraction() >= _SPLIT_CHANCE:
            return [segment]
        middle = 1 + self._randomness.below(len(segment) - 1)
        return [segment[:middle], segment[middle:]]

    def _reset(self, transport: SimulatedTransport) -> None:
        self.reset_count += 1
        for end in (transport, transport.peer):
            end.wire.clear()
            end.receive(Signal.RESET)

    def _close_listeners(self, host: Host, process: Process) -> None:
        host.listeners = {port: each for port, each in host.listeners.items() if each.process is not process}

    def _later(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.loop.call_at(self.loop.time() + delay_ms / 1000, action, context=self.loop.world.context)

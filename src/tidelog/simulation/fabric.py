"""What carries bytes between simulated nodes: connections over links, each direction kept in order whatever the links do.

A cut link loses nothing for good: TCP retransmits, so segments wait and go on when the link is mended. One way may be cut alone; then
acknowledgements are held and the sender's window fills.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from tidelog.runtime.network import Address, NetworkFailure
from tidelog.simulation.links import Host, Link, NetworkFaults
from tidelog.simulation.loop import Process, SimulatedLoop
from tidelog.simulation.message_counts import MessageCounts
from tidelog.simulation.messages import Messages
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.trace import Trace
from tidelog.simulation.transport import Segment, Signal, SimulatedTransport

__all__ = ["LOOPBACK_NAMES", "Fabric", "NetworkFaults"]

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_CONNECT_TIMEOUT_MS: Final = 127_000.0  # Linux gives up after six retries of the SYN.
_SPLIT_CHANCE: Final = 0.1


class Fabric(NetworkFaults):
    """What carries connections over the links."""

    def __init__(self, loop: SimulatedLoop, randomness: SimulatedRandomness, trace: Trace) -> None:
        super().__init__(loop, randomness)
        self.delivered_bytes = 0
        self.held_count = 0
        self.messages: Messages | None = None  # Somebody wants to see, count and stop single messages.
        self._trace = trace
        self._last_arrival: dict[SimulatedTransport, float] = {}
        self.counts = MessageCounts()
        self._context = loop.world.context  # of the wire, which no node's death or pause touches

    @property
    def faults(self) -> NetworkFaults:
        """The fabric as somebody sees it who only wants to make it worse, or well again."""
        return self

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
            self._drop_messages(transport)
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
        near.is_client = True
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
        """Put a segment on the wire behind everything this end sent before, unless somebody stops it first."""
        if self.messages is not None:
            self.messages.take(sender, segment)
        else:
            self.carry(sender, segment)

    def watch_messages(self) -> Messages:
        """From now on every message is seen on its own."""
        if self.messages is None:
            self.messages = Messages(self.carry)
        return self.messages

    def carry(self, sender: SimulatedTransport, segment: Segment) -> None:
        """Put a segment on the wire."""
        link = self.link(sender.host.name, sender.peer.host.name)
        if isinstance(segment, bytes) and link.reset_chance and self._randomness.fraction() < link.reset_chance:
            self._reset(sender)
            return
        now_ms = self.loop.time_ms()
        for piece in self._split(segment):
            link.free_at_ms = max(link.free_at_ms, now_ms)
            if link.bytes_per_ms and isinstance(piece, bytes):
                link.free_at_ms += len(piece) / link.bytes_per_ms
            arrival_ms = link.free_at_ms + link.travel_ms(self._randomness)
            arrival_ms = max(arrival_ms, self._last_arrival.get(sender, 0.0))
            self._last_arrival[sender] = arrival_ms
            sender.wire.append(piece)
            self.loop.call_at(
                self.loop.time() + (arrival_ms - now_ms) / 1000, self._arrive, sender, link, context=self._context
            )
        self.counts.count(sender.host, segment)

    def forget_undelivered(self, sender: SimulatedTransport) -> None:
        """Its kernel repeats nothing any more: what a cut link has kept from arriving never does."""
        if self.link(sender.host.name, sender.peer.host.name).is_cut:
            sender.wire.clear()

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
        receiver.take_in(segment)
        self.counts.count(receiver.host, segment)
        receiver.deliver_next()

    def _reset(self, transport: SimulatedTransport) -> None:
        for end in (transport, transport.peer):
            self._drop_messages(end)
        super()._reset(transport)

    def _drop_messages(self, transport: SimulatedTransport) -> None:
        if self.messages is not None:
            self.messages.forget(transport)

    def _split(self, segment: Segment) -> list[Segment]:
        if not isinstance(segment, bytes) or len(segment) < 2 or self._randomness.fraction() >= _SPLIT_CHANCE:
            return [segment]
        middle = 1 + self._randomness.below(len(segment) - 1)
        return [segment[:middle], segment[middle:]]

    def _close_listeners(self, host: Host, process: Process) -> None:
        host.listeners = {port: each for port, each in host.listeners.items() if each.process is not process}

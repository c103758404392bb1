"""The network as one simulated process sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tidelog.runtime.network import Address, NetworkFailure
from tidelog.simulation.fabric import LOOPBACK_NAMES, Fabric
from tidelog.simulation.links import Host, Listener
from tidelog.simulation.loop import Process
from tidelog.simulation.transport import Signal, SimulatedTransport

P = TypeVar("P", bound=asyncio.Protocol)


class SimulatedListening:
    """A bound port of a simulated host."""

    def __init__(self, host: Host, address: Address, listener: Listener) -> None:
        self._host = host
        self._address = address
        self._listener = listener

    @property
    def address(self) -> Address:
        """The bound address, with the port that was picked when 0 was asked for."""
        return self._address

    async def close(self) -> None:
        """Stop accepting; connections already accepted live on."""
        if self._host.listeners.get(self._address.port) is self._listener:
            del self._host.listeners[self._address.port]


class SimulatedNetwork:
    """Listens and connects as one process on one host of the fabric. Host names are node names; IP literals other than loopback are not."""

    def __init__(self, fabric: Fabric, host: Host, process: Process) -> None:
        self._fabric = fabric
        self._host = host
        self._process = process

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: Address) -> SimulatedListening:
        """Accept on `address`; port 0 picks a free one."""
        if self._fabric.resolve(self._host, address) is not self._host:
            raise NetworkFailure(address, "Cannot assign requested address")
        if not 0 <= address.port < 1 << 16:
            raise NetworkFailure(address, "port must be 0-65535")
        port = address.port or self._host.pick_port()
        if port in self._host.listeners:
            raise NetworkFailure(address, "Address already in use")
        listener = Listener(factory=factory, process=self._process, is_loopback_only=address.host in LOOPBACK_NAMES)
        self._host.listeners[port] = listener
        return SimulatedListening(self._host, Address(address.host, port), listener)

    async def connect(self, factory: Callable[[], P], address: Address) -> P:
        """Open a connection; there and back once, as a handshake takes."""
        if not 0 < address.port < 1 << 16:
            raise NetworkFailure(address, "port must be 1-65535")
        server = self._fabric.resolve(self._host, address)
        await self._fabric.travel(self._host, server, address)
        listener = server.listeners.get(address.port)
        if listener is None or (listener.is_loopback_only and server is not self._host):
            await self._fabric.travel(server, self._host, address)
            raise NetworkFailure(address, "Connection refused")
        near, far = self._fabric.pair(self._host, self._process, server, address)
        self._fabric.loop.call_soon(_accept, server, address.port, listener, far, context=listener.process.context)
        try:
            await self._fabric.travel(server, self._host, address)
        except (asyncio.CancelledError, NetworkFailure):
            near.lose_process()
            raise
        protocol = factory()
        near.start(protocol)
        return protocol


def _accept(server: Host, port: int, listener: Listener, transport: SimulatedTransport) -> None:
    if server.listeners.get(port) is listener:
        transport.start(listener.factory())
    else:
        transport.peer.receive(Signal.RESET)
        transport.lose_power()

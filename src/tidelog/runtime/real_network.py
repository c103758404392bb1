"""The real network: TCP on the running loop, asyncio's or uvloop's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, TypeAlias, TypeVar

from tidelog.runtime.network import Address, NetworkFailure

P = TypeVar("P", bound=asyncio.Protocol)
_Resolved: TypeAlias = tuple[socket.AddressFamily, str]

_BACKLOG: Final = 1024
_PORT_ATTEMPTS: Final = 16  # A name with an IPv4 and an IPv6 address needs one port that is free on both.
_UNUSABLE: Final = (OSError, ValueError, OverflowError)  # Refused; a name that is no name; a port that is no port.


class RealListening:
    """The listening sockets of one address: one per IP address its name stands for."""

    def __init__(self, address: Address, servers: list[asyncio.Server]) -> None:
        self._address = address
        self._servers = servers

    @property
    def address(self) -> Address:
        """The bound address, with the port that was picked when 0 was asked for."""
        return self._address

    async def close(self) -> None:
        """Stop accepting; connections already accepted live on (so this is not `wait_closed`, which waits for them)."""
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # uvloop closes the socket in its next round.


class RealNetwork:
    """Sockets of this machine."""

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: Address) -> RealListening:
        """Accept on `address`, on every IP address its name has here; port 0 picks one port for all of them."""
        loop = asyncio.get_running_loop()
        servers: list[asyncio.Server] = []
        try:
            sockets = _bind(await _resolve(address), address.port)
            port = sockets[0].getsockname()[1]
            for each in sockets:
                server = await loop.create_server(factory, sock=each, backlog=_BACKLOG)
                servers.append(server)
        except _UNUSABLE as error:
            for server in servers:
                server.close()
            raise NetworkFailure(address, _reason(error)) from error
        return RealListening(Address(address.host, port), servers)

    async def connect(self, factory: Callable[[], P], address: Address) -> P:
        """Open a connection and return its protocol, already connected. Both loops set TCP_NODELAY on every TCP stream."""
        if not 0 < address.port < 1 << 16:  # uvloop would take it modulo 65536.
            raise NetworkFailure(address, "port must be 1-65535")
        failure: OSError | ValueError | OverflowError | None = None
        try:
            for host in await _look_up(address):
                try:
                    _, protocol = await asyncio.get_running_loop().create_connection(factory, host, address.port)
                except OSError as error:
                    failure = error
                else:
                    return protocol
        except _UNUSABLE as error:
            failure = error
        raise NetworkFailure(address, _reason(failure) if failure else "its name has no address") from failure


async def _look_up(address: Address) -> list[str]:
    """The IP addresses of a name, in the order to try them.

    `create_connection` would look it up itself. But uvloop's, when given up meanwhile, leaves behind a lookup whose failure nobody takes.
    """
    if _is_numeric(address.host):
        return [address.host]
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for _, _, _, _, place in found))


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def _resolve(address: Address) -> list[_Resolved]:
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found))


def _bind(resolved: list[_Resolved], port: int) -> list[socket.socket]:
    for attempt in range(_PORT_ATTEMPTS):
        sockets: list[socket.socket] = []
        try:
            for family, host in resolved:
                chosen = sockets[0].getsockname()[1] if sockets else port
                sockets.append(_bound(family, host, chosen))
        except (OSError, OverflowError):
            for each in sockets:
                each.close()
            if port != 0 or not sockets or attempt == _PORT_ATTEMPTS - 1:
                raise
        else:
            return sockets
    raise OSError("no port is free on every address of the name")


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except (OSError, OverflowError):
        with suppress(OSError):
            bound.close()
        raise
    return bound


def _reason(error: OSError | ValueError | OverflowError) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)

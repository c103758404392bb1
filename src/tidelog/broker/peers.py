"""Connections to other brokers, by broker id: for what brokers ask each other, not for replication, which has its own.

Several connections per peer, because answers come in order: what a leader asks of the controller must not wait behind an administrator's
request that waits for a slow broker, nor a producer's first records behind markers that wait for a slow follower. A connection is made when
it is first needed, and made again when it was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.errors import ConnectionLost, RequestTimedOut
from tidelog.config import BrokerConfig
from tidelog.model import BrokerId
from tidelog.runtime import Address, Network
from tidelog.wire.api import ApiKey, Request, Response, api_of

R = TypeVar("R", bound=Response)

PEER_CLIENT_ID: Final = "broker-"
"""What the names of brokers begin with that ask other brokers."""
NOWHERE: Final = Address("", 0)
_IN_FLIGHT_MAX: Final = 100
_SETUP_TIMEOUT_MS_MAX: Final = 10_000.0
_OWN_LANES: Final = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN})


_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  # recognised, not bound to


def broker_id_of(client_id: str) -> BrokerId | None:
    """Which broker calls itself so, whatever it is that asks for it; None for clients."""
    number = client_id.removeprefix(PEER_CLIENT_ID).partition("-")[0]
    return int(number) if client_id.startswith(PEER_CLIENT_ID) and number.isascii() and number.isdigit() else None


def reachable(address: Address) -> Address:
    """Where to connect to a broker; one that names no address of its own must be on this machine."""
    return address._replace(host=_LOOPBACK.get(address.host, address.host))


def peer_limits(config: BrokerConfig) -> ConnectionLimits:
    """How patient and how greedy a broker is with another one."""
    return ConnectionLimits(
        client_id=f"{PEER_CLIENT_ID}{config.broker_id}",
        setup_timeout_ms=min(config.request_timeout_ms, _SETUP_TIMEOUT_MS_MAX),
        request_timeout_ms=config.request_timeout_ms,
        in_flight_max=_IN_FLIGHT_MAX,
        receive_bytes_max=config.socket_request_max_bytes,
    )


class PeerLine:
    """One connection to one peer, opened when needed; those who need it at once open it once."""

    def __init__(self, network: Network, limits: ConnectionLimits) -> None:
        self._network = network
        self._limits = limits
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()

    async def request(
        self, address: Address, request: Request[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> R:
        """Ask the peer at `address`, connecting first if need be, all in time. Raises ConnectionLost or UnsupportedApi."""
        limit_ms = self._limits.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                connection = await self._connected(address)
        except TimeoutError:
            raise RequestTimedOut(address, f"not connected within {limit_ms:.0f} ms") from None
        return await connection.request(request, version=version, timeout_ms=limit_ms)

    def close(self) -> None:
        """Hang up; the next request connects again."""
        if self._connection is not None:
            self._connection.close("the peer is no longer needed")
            self._connection = None

    async def _connected(self, address: Address) -> Connection:
        async with self._opening:
            connection = self._connection
            if connection is not None and not connection.is_lost and connection.address == address:
                return connection
            self.close()
            self._connection = connection = await open_connection(self._network, address, self._limits)
            return connection


class _Lane(NamedTuple):
    """Which of the connections to a peer."""

    broker_id: BrokerId
    is_broker_only: bool
    own: ApiKey | None  # an API that shares its connection with no other


class Peers:
    """The other brokers, for those who have a question to one of them."""

    def __init__(
        self, config: BrokerConfig, network: Network, address_of: Callable[[BrokerId], Address | None]
    ) -> None:
        self._limits = peer_limits(config)
        self._network = network
        self._address_of = address_of
        self._lines: dict[_Lane, PeerLine] = {}

    async def request(
        self, broker_id: BrokerId, request: Request[R], *, version: int | None = None, timeout_ms: float | None = None
    ) -> R:
        """Ask one broker, within `timeout_ms` or request.timeout.ms. Raises ConnectionLost, or UnsupportedApi without a `version`."""
        address = self._address_of(broker_id)
        if address is None:
            raise ConnectionLost(NOWHERE, f"nobody knows where broker {broker_id} is")
        api = api_of(request)
        lane = _Lane(broker_id, api.is_broker_only, api.key if api.key in _OWN_LANES else None)
        line = self._lines.get(lane)
        if line is None:
            line = self._lines[lane] = PeerLine(self._network, self._limits)
        return await line.request(reachable(address), request, version=version, timeout_ms=timeout_ms)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hang up when the block is left."""
        try:
            yield
        finally:
            for line in self._lines.values():
                line.close()

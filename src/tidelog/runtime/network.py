"""Byte streams between addresses, as asyncio protocols and transports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

P = TypeVar("P", bound=asyncio.Protocol)


class Address(NamedTuple):
    """A host name or IP literal, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NetworkFailure(Exception):
    """Nobody could be reached, or the address could not be listened on."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class Listening(Protocol):
    """A bound address that accepts connections until closed."""

    @property
    def address(self) -> Address:
        """The bound address, with the port that was picked when 0 was asked for."""
        ...

    async def close(self) -> None:
        """Stop accepting; connections already accepted live on."""
        ...


class Network(Protocol):
    """Opens and accepts byte streams. Transports behave as asyncio's do: write, writelines, pause_reading, flow-control callbacks."""

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: Address) -> Listening:
        """Accept on `address`; port 0 picks a free one. Raises NetworkFailure."""
        ...

    async def connect(self, factory: Callable[[], P], address: Address) -> P:
        """Open a connection and return its protocol, already connected. Raises NetworkFailure; bound it with asyncio.timeout."""
        ...

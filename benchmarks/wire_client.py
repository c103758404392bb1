"""Asks brokers in their own words over a plain socket: the same bytes for every broker, and no client that retries on its own."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from typing import Any, Final, Self, TypeVar

from tidelog.wire.api import ApiKey, api_of
from tidelog.wire.codec import decode_response
from tidelog.wire.definition import Request, Response
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, decode_response_header

R = TypeVar("R", bound=Response)

TIMEOUT_S: Final = 60.0


def encoded(request: Request[Any], version: int, correlation_id: int) -> bytes:
    """A request as it travels."""
    header = RequestHeader(api_of(request).key, version, correlation_id, "bench")
    return b"".join(map(bytes, encode_request_frame(header, request)))


def decoded(key: ApiKey, version: int, frame: bytes) -> Any:
    """What is in an answer."""
    _, start = decode_response_header(key, version, frame)
    return decode_response(key, version, memoryview(frame)[start:])


class Connection:
    """Blocking; several requests may be under way."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, request: Request[R], version: int) -> R:
        """One question, one answer."""
        (answer,) = self.ask_all([request], version)
        return answer

    def ask_all(self, requests: Sequence[Request[R]], version: int) -> list[R]:
        """Questions that are all sent before the first answer is read."""
        self._socket.sendall(b"".join(encoded(request, version, next(self._numbers)) for request in requests))
        answers: list[R] = [decoded(api_of(request).key, version, self._frame()) for request in requests]
        return answers

    def _frame(self) -> bytes:
        frame = self._file.read(int.from_bytes(self._file.read(4), "big"))
        if not frame:
            raise ConnectionResetError("the broker has closed the connection")
        return frame


class AsyncConnection:
    """The same for many at once; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count()

    @classmethod
    async def open(cls, host: str, port: int) -> AsyncConnection:
        """Connect."""
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, request: Request[R], version: int) -> R:
        """One question, one answer."""
        self._writer.write(encoded(request, version, next(self._numbers)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        answer: R = decoded(api_of(request).key, version, await self._reader.readexactly(size))
        return answer

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

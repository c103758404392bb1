"""One connection to one broker: requests go out in order, answers come back in the same order.

A broker answers the requests of a connection one after the other, so an answer that does not carry the correlation id of the oldest
request, or one that does not come in time, means that nothing more on this connection can be relied on: it is closed, and everything
unanswered fails with ConnectionLost.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from tidelog import __version__
from tidelog.client.errors import ConnectionLost, RequestTimedOut, UnsupportedApi
from tidelog.model import ErrorCode
from tidelog.runtime import Address, Network, NetworkFailure
from tidelog.wire.api import API_TABLE, ApiKey, Request, Response, api_of
from tidelog.wire.codec import decode_response
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, decode_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.primitives import Buffer
from tidelog.wire.stream import FrameDecoder

R = TypeVar("R", bound=Response)

_CORRELATION_ID_MAX: Final = 2**31 - 1
_NO_LINGER: Final = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How patient and how greedy a connection is."""

    client_id: str | None
    setup_timeout_ms: float
    request_timeout_ms: float
    in_flight_max: int
    receive_bytes_max: int


class Unanswered(Generic[R]):
    """A request on the wire. Await `answer` for its response."""

    __slots__ = ("answer", "header", "sent_s", "timer")

    def __init__(self, header: RequestHeader, answer: asyncio.Future[R], *, sent_s: float) -> None:
        self.header = header
        self.answer = answer
        self.sent_s = sent_s
        self.timer: asyncio.TimerHandle | None = None


class Connection(asyncio.Protocol):
    """Made by `open_connection`. `send` when `can_send`, or let `request` wait for its turn."""

    def __init__(self, address: Address, limits: ConnectionLimits) -> None:
        self.address = address
        self._limits = limits
        self._frames = FrameDecoder(size_max=limits.receive_bytes_max)
        self._transport: asyncio.Transport | None = None
        self.versions: Mapping[ApiKey, int] = {ApiKey.API_VERSIONS: API_TABLE[ApiKey.API_VERSIONS].served.high}
        """The version spoken for each API; only ApiVersions until the peer has answered it."""
        self.features: Mapping[str, int] = {}
        """The level at which the cluster runs each feature, as the peer says."""
        self._unanswered: deque[Unanswered[Response]] = deque()
        self._turn_waiters: deque[asyncio.Future[None]] = deque()
        self._turn_callbacks: list[Callable[[], None]] = []
        self._loss_callbacks: list[Callable[[], None]] = []
        self._next_correlation_id = 0
        self._is_writable = True
        self._lost: ConnectionLost | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_lost(self) -> bool:
        """Whether the connection is over."""
        return self._lost is not None

    @property
    def has_timed_out(self) -> bool:
        """Whether the connection was given up because a request went unanswered."""
        return isinstance(self._lost, RequestTimedOut)

    @property
    def waiting_ms(self) -> float:
        """For how long the oldest request has been waiting for its answer; 0 if none is."""
        return (self._loop.time() - self._unanswered[0].sent_s) * 1000 if self._unanswered else 0.0

    @property
    def can_send(self) -> bool:
        """Whether a request may go out now: connected, pipeline not full, the peer reads what we write."""
        return self._lost is None and self._is_writable and len(self._unanswered) < self._limits.in_flight_max

    @property
    def in_flight_count(self) -> int:
        """Requests not answered yet."""
        return len(self._unanswered)

    def version_of(self, key: ApiKey) -> int:
        """The version spoken for an API. Raises UnsupportedApi."""
        version = self.versions.get(key)
        if version is None:
            raise UnsupportedApi(f"the broker at {self.address} serves no version of {key.name} that we speak")
        return version

    def send(
        self, request: Request[R], *, timeout_ms: float | None = None, version: int | None = None
    ) -> Unanswered[R]:
        """Put a request on the wire now. Raises ConnectionLost, UnsupportedApi, or UnencodableMessage; check `can_send` first."""
        header = self._write(request, version)
        unanswered: Unanswered[R] = Unanswered(header, self._loop.create_future(), sent_s=self._loop.time())
        delay_ms = self._limits.request_timeout_ms if timeout_ms is None else timeout_ms
        # Whoever answers checks the type against the table, so the deque may hold requests of every kind.
        entry = cast("Unanswered[Response]", unanswered)
        entry.timer = self._loop.call_later(delay_ms / 1000, self._on_timeout, entry, delay_ms)
        self._unanswered.append(entry)
        return unanswered

    def call_when_turn_comes(self, callback: Callable[[], None]) -> None:
        """Call back, once, when `can_send` may have become true or the connection is lost."""
        if callback not in self._turn_callbacks:
            self._turn_callbacks.append(callback)

    def send_unanswered(self, request: Request[R], *, on_loss: Callable[[], None], version: int | None = None) -> None:
        """Put a request on the wire to which the protocol has no answer (Produce with acks=0).

        Whoever waits for no answer would not hear that the connection is lost: `on_loss` is called then, once.
        """
        if on_loss not in self._loss_callbacks:
            self._loss_callbacks.append(on_loss)
        self._write(request, version)

    async def request(self, request: Request[R], *, timeout_ms: float | None = None, version: int | None = None) -> R:
        """Wait for a turn, send, and wait for the answer. Raises ConnectionLost (RequestTimedOut) or UnsupportedApi."""
        delay_ms = self._limits.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._turn()
        except TimeoutError:
            raise RequestTimedOut(self.address, f"no turn within {delay_ms:.0f} ms") from None
        return await self.send(request, timeout_ms=delay_ms, version=version).answer

    def close(self, reason: str = "closed by the client") -> None:
        """End the connection now; whatever is unanswered fails, whatever is unsent is dropped."""
        self._lose(ConnectionLost(self.address, reason))

    async def finish(self, *, timeout_ms: float) -> None:
        """End the connection once everything written has left us, or after the timeout.

        Only requests without answers (acks=0) can still be on their way out when nobody waits for anything any more.
        """
        if self._lost is not None or self._transport is None:
            return
        self._transport.close()
        has_unsent = self._transport.get_write_buffer_size() > 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while has_unsent and self._lost is None:
                    waiter: asyncio.Future[None] = self._loop.create_future()
                    self._turn_waiters.append(waiter)
                    await waiter
        except TimeoutError:
            self._transport.abort()
        finally:
            self._fail_unanswered(ConnectionLost(self.address, "closed by the client"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The network has connected us."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answers, or parts of them, arrived."""
        try:
            for frame in self._frames.feed(data):
                self._on_frame(frame)
        except MalformedMessage as error:
            self.close(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer, or the network, ended it."""
        self._lose(ConnectionLost(self.address, "closed by the broker" if exc is None else str(exc)))

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """It has caught up."""
        self._is_writable = True
        self._give_turns()

    def _write(self, request: Request[R], version: int | None) -> RequestHeader:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionLost(self.address, "not connected")
        key = api_of(request).key
        chosen = self.version_of(key) if version is None else version
        header = RequestHeader(key, chosen, self._next_correlation_id, self._limits.client_id)
        chunks = encode_request_frame(header, request)
        self._next_correlation_id = (self._next_correlation_id + 1) & _CORRELATION_ID_MAX
        self._transport.writelines(chunks)
        return header

    def _on_frame(self, frame: Buffer) -> None:
        if self._lost is not None:
            return
        if not self._unanswered:
            raise MalformedMessage("an answer came to which there is no request")
        oldest = self._unanswered[0]
        header = oldest.header
        correlation_id, position = decode_response_header(header.api_key, header.api_version, frame)
        if correlation_id != header.correlation_id:
            raise MalformedMessage(f"answer {correlation_id} came where {header.correlation_id} was due")
        response = decode_response(header.api_key, header.api_version, memoryview(frame)[position:])
        self._unanswered.popleft()
        if oldest.timer is not None:
            oldest.timer.cancel()
        if not oldest.answer.done():
            oldest.answer.set_result(response)
        self._give_turns()

    def _on_timeout(self, unanswered: Unanswered[Response], delay_ms: float) -> None:
        name = unanswered.header.api_key.name
        self._lose(RequestTimedOut(self.address, f"no answer to {name} within {delay_ms:.0f} ms"))

    async def _turn(self) -> None:
        while not self.can_send:
            if self._lost is not None:
                raise self._lost
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._turn_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._turn_waiters:
                    self._turn_waiters.remove(waiter)

    def _give_turns(self) -> None:
        # Woken waiters check again, in order; those that find no room wait at the end, which the few users of `request` can bear.
        while self._turn_waiters:
            waiter = self._turn_waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        callbacks, self._turn_callbacks = self._turn_callbacks, []
        for callback in callbacks:
            callback()

    def _lose(self, loss: ConnectionLost) -> None:
        if self._transport is not None and self._lost is None:
            if self._unanswered and not self._transport.is_closing():
                _reset_on_close(self._transport)
            self._transport.abort()
        self._fail_unanswered(loss)

    def _fail_unanswered(self, loss: ConnectionLost) -> None:
        if self._lost is not None:
            return
        self._lost = loss
        for unanswered in self._unanswered:
            if unanswered.timer is not None:
                unanswered.timer.cancel()
            if not unanswered.answer.done():
                unanswered.answer.set_exception(loss)
        self._unanswered.clear()
        self._give_turns()
        callbacks, self._loss_callbacks = self._loss_callbacks, []
        for callback in callbacks:
            callback()


def common_versions(theirs: Iterable[ApiVersion]) -> dict[ApiKey, int]:
    """For each API that both sides serve in some common version, the highest of those."""
    offered: Mapping[int, ApiVersion] = {version.api_key: version for version in theirs}
    return {
        key: min(api.served.high, offered[key].max_version)
        for key, api in API_TABLE.items()
        if key in offered
        and max(api.served.low, offered[key].min_version) <= min(api.served.high, offered[key].max_version)
    }


async def open_connection(network: Network, address: Address, limits: ConnectionLimits) -> Connection:
    """Connect and agree on versions. Raises ConnectionLost, whatever the reason, within the setup timeout."""
    try:
        async with asyncio.timeout(limits.setup_timeout_ms / 1000):
            connection = await network.connect(lambda: Connection(address, limits), address)
            try:
                answer = await _ask_versions(connection)
                connection.versions = common_versions(answer.api_keys)
                connection.features = {row.name: row.max_version_level for row in answer.finalized_features}
            except BaseException:
                connection.close("no agreement on versions")
                raise
            return connection
    except NetworkFailure as error:
        raise ConnectionLost(address, error.reason) from error
    except TimeoutError:
        raise RequestTimedOut(address, f"not connected within {limits.setup_timeout_ms:.0f} ms") from None


async def _ask_versions(connection: Connection) -> ApiVersionsResponse:
    """ApiVersions in our highest version, then in one the broker knows (KIP-511)."""
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
    response = await connection.request(request)
    if response.error_code is ErrorCode.UNSUPPORTED_VERSION:
        version = common_versions(response.api_keys).get(ApiKey.API_VERSIONS, 0)
        response = await connection.request(request, version=version)
    if response.error_code is not ErrorCode.NONE:
        raise ConnectionLost(connection.address, f"ApiVersions answered {response.error_code.name}")
    return response


def _reset_on_close(transport: asyncio.Transport) -> None:
    """Have the kernel forget what it has not delivered: a request that nobody waits for any more is repeated elsewhere by now.

    Otherwise it goes on sending it, for minutes, and a batch may arrive after the broker has said that it does not have it.
    """
    kernels_end = transport.get_extra_info("socket")
    if kernels_end is not None:
        kernels_end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

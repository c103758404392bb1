"""One client's connection: frames in, answers out, in request order.

One request of a connection is served at a time, as in Kafka: a parked produce or fetch holds back the requests behind it. That is what keeps
pipelined requests in order, and with idempotence makes five of them in flight safe. While a request waits or the client does not read its
answers, reading from the socket stops once enough is queued, so a connection never holds more than its limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Protocol, cast

from tidelog.model import InvariantBroken
from tidelog.runtime import Address, Clock
from tidelog.runtime.logs import fields
from tidelog.server.dispatcher import ConnectionRefused, Dispatcher, Frame
from tidelog.wire.stream import FrameDecoder, FrameRefused

logger = logging.getLogger(__name__)


class ConnectionOwner(Protocol):
    """What a connection needs of the listener it lives in."""

    @property
    def name(self) -> str:
        """The listener's name, for answers that depend on it."""
        ...

    @property
    def is_serving(self) -> bool:
        """Whether requests are answered yet; before that they queue up, within the limits."""
        ...

    @property
    def clock(self) -> Clock:
        """Time, for idleness."""
        ...

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run work that ends with the listener at the latest."""
        ...

    def forget(self, connection: Connection) -> None:
        """The connection is over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much one connection may ask of us."""

    request_bytes_max: int
    queued_requests_max: int = 16
    queued_bytes_max: int = 4 << 20
    idle_ms_max: int = 600_000
    write_stall_ms_max: int = 60_000


class Connection(asyncio.Protocol):
    """The shell around one transport. Lives in the listener that accepted it."""

    def __init__(self, dispatcher: Dispatcher, limits: ConnectionLimits, owner: ConnectionOwner) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._owner = owner
        self._decoder = FrameDecoder(size_max=limits.request_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._queue: deque[bytearray] = deque()
        self._queued_bytes = 0
        self.waiting: asyncio.Task[None] | None = None
        """The one request whose answer is being waited for."""
        self._is_reading = True
        self._is_writable = True
        self._stalled_since_ms = 0.0
        self._active_ms = owner.clock.monotonic_ms()
        self._local = self._peer = Address("", 0)

    # asyncio.Protocol: what the transport tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember who talks to whom."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports inherit from none of asyncio's.
        self._local = _address(transport.get_extra_info("sockname"))
        self._peer = _address(transport.get_extra_info("peername"))

    def data_received(self, data: bytes) -> None:
        """Queue the frames that are complete and serve what can be served."""
        self._active_ms = self._owner.clock.monotonic_ms()
        try:
            frames = self._decoder.feed(data)
        except FrameRefused as refused:
            self._refuse(str(refused))
            return
        for frame in frames:
            self._queue.append(frame)
            self._queued_bytes += len(frame)
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the queue and stop waiting for anything on this client's behalf."""
        self._transport = None
        self._queue.clear()
        if self.waiting is not None:
            self.waiting.cancel()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        """The client does not read its answers: serve it nothing more until it does."""
        self._is_writable = False
        self._stalled_since_ms = self._owner.clock.monotonic_ms()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writable = True
        self._pump()

    # What the listener asks.

    def begin(self) -> None:
        """The listener serves from now on: answer what has queued up."""
        self._pump()

    def close_if_overdue(self, now_ms: float) -> bool:
        """Drop a client that was silent, or has not read its answers, for too long."""
        if not self._is_writable and now_ms - self._stalled_since_ms > self._limits.write_stall_ms_max:
            self._refuse("answers were not read in time")
            return True
        if self.waiting is None and now_ms - self._active_ms > self._limits.idle_ms_max:
            self.close()
            return True
        return False

    def close(self) -> None:
        """Hang up after what is already written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    # Serving.

    def _pump(self) -> None:
        while self._queue and self._can_serve():
            frame = self._queue.popleft()
            self._queued_bytes -= len(frame)
            self._serve(frame)
        self._regulate_reading()

    def _can_serve(self) -> bool:
        return self.waiting is None and self._is_writable and self._owner.is_serving and self._transport is not None

    def _serve(self, frame: bytearray) -> None:
        try:
            answer = self._dispatcher.dispatch(frame, self._owner.name, self._local, self._peer)
        except ConnectionRefused as refused:
            self._refuse(str(refused))
            return
        except Exception as bug:  # noqa: BLE001  # see _blame
            self._blame(bug)
            return
        if isinstance(answer, list):
            self._write(answer)
        elif answer is not None:
            self.waiting = self._owner.spawn(self._await(answer))

    async def _await(self, answer: Awaitable[Frame | None]) -> None:
        try:
            frame = await answer
        except ConnectionRefused as refused:
            self._refuse(str(refused))
            return
        except Exception as bug:  # noqa: BLE001  # see _blame
            self._blame(bug)
            return
        finally:
            self.waiting = None
        if frame is not None:
            self._write(frame)
        self._active_ms = self._owner.clock.monotonic_ms()
        self._pump()

    def _write(self, frame: Frame) -> None:
        if self._transport is not None:
            self._transport.writelines(frame)

    def _regulate_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        is_full = (
            len(self._queue) >= self._limits.queued_requests_max or self._queued_bytes >= self._limits.queued_bytes_max
        )
        if self._is_reading and is_full:
            self._transport.pause_reading()
            self._is_reading = False
        elif not self._is_reading and not is_full:
            self._transport.resume_reading()
            self._is_reading = True

    def _blame(self, bug: Exception) -> None:
        """A handler failed in a way nobody foresaw. One request must not end the node for all clients, so only its connection goes;

        a broken invariant, though, means that the node's own state cannot be trusted, and stops it.
        """
        self.abort()
        if isinstance(bug, InvariantBroken):
            self._owner.spawn(_raise(bug))
        else:
            logger.error("request failed", extra=fields(peer=self._peer), exc_info=bug)

    def _refuse(self, reason: str) -> None:
        logger.warning("connection refused", extra=fields(peer=self._peer, reason=reason))
        self._queue.clear()
        self.abort()


async def _raise(bug: InvariantBroken) -> None:
    raise bug


def _address(name: object) -> Address:
    return Address(str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else Address("", 0)

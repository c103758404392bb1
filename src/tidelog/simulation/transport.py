"""One end of a simulated TCP connection, behaving as asyncio's selector transport does.

Bytes go from the transport's buffer into a window's worth of flight, over the wire (`fabric`), into the peer's inbox, and to its protocol
in that protocol's own process. What is in flight belongs to the kernels: it survives the death of the sending process, not a power cut.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import socket
import struct
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidelog.model import invariant
from tidelog.simulation.loop import Process

if TYPE_CHECKING:
    from tidelog.simulation.fabric import Fabric
    from tidelog.simulation.links import Host

WINDOW_BYTES: Final = 256 * 1024
SEGMENT_BYTES_MAX: Final = 64 * 1024
_READ_BYTES_MAX: Final = 256 * 1024
_HIGH_WATER_BYTES: Final = 64 * 1024


class Signal(enum.Enum):
    """What travels besides bytes."""

    FIN = "fin"
    RESET = "reset"


Segment: TypeAlias = bytes | Signal


class _Socket:
    """What a program may do to the socket below a transport: have the kernel forget what it has not delivered when it is closed."""

    def __init__(self) -> None:
        self.is_reset_on_close = False

    def setsockopt(self, level: int, option: int, value: bytes | int) -> None:
        """Heeds SO_LINGER with a time of zero, as the kernel does."""
        del level
        if option == socket.SO_LINGER and isinstance(value, bytes):
            is_on, seconds = struct.unpack("ii", value)
            self.is_reset_on_close = bool(is_on) and seconds == 0


class SimulatedTransport(asyncio.Transport):
    """A connected stream, owned by `process` on `host`."""

    peer: SimulatedTransport

    def __init__(self, fabric: Fabric, host: Host, process: Process, *, names: dict[str, tuple[str, int]]) -> None:
        self._socket = _Socket()
        super().__init__({**names, "socket": self._socket})
        self.host = host
        self.process = process
        self.is_client = False  # It asked for the connection; the other end accepted.
        self.is_gone = False  # The kernel knows this connection no more.
        self.in_flight = 0
        self.wire: deque[Segment] = deque()
        self._fabric = fabric
        self._loop = fabric.loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._high_water, self._low_water = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self._inbox: deque[Segment] = deque()
        self._is_reading = True
        self._is_delivering = False
        self._is_write_paused = False
        self._is_closing = False
        self._is_ending = False
        self._has_written_eof = False
        self._has_sent_fin = False

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Introduce the protocol; bytes that came early follow."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._schedule_delivery()

    # asyncio.Transport: writing.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Take the bytes; never blocks."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._has_written_eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._is_closing or self.is_gone:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(self._buffer[-1])
        self._pump()
        if self._buffered > self._high_water and not self._is_write_paused:
            self._is_write_paused = True
            self._current().pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """As one write."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Half-close: no more bytes from us after those already written."""
        if not self._has_written_eof and not self._is_closing:
            self._has_written_eof = True
            self._pump()

    def can_write_eof(self) -> bool:
        """TCP can."""
        return True

    def get_write_buffer_size(self) -> int:
        """Bytes not yet handed to the kernel."""
        return self._buffered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The marks in force, low and high."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When to pause and resume the protocol's writing."""
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water, self._low_water = high, low

    # asyncio.Transport: reading.

    def pause_reading(self) -> None:
        """No data_received until resumed; the peer soon feels it."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Go on."""
        self._is_reading = True
        self._schedule_delivery()

    def is_reading(self) -> bool:
        """Whether data is handed over as it comes."""
        return self._is_reading and not self._is_closing

    # asyncio.Transport: the rest.

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told."""
        return self._current()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another one from now on."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Closed, or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Stop reading, send what was written, then end."""
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._end(None)

    def abort(self) -> None:
        """End now; what the kernel did not have yet is lost."""
        self._fail(None)

    # What the fabric and the peer do to it.

    def receive(self, segment: Segment) -> None:
        """A segment arrived at this end's kernel, and is for the process to read."""
        self.take_in(segment)
        if not self.is_gone:
            self._schedule_delivery()

    def deliver_next(self) -> None:
        """The process reads what has been taken in as soon as it comes to it."""
        if self._is_delivery_due and not self.is_gone:
            self._is_delivering = True
            self._loop.run_next(self._deliver, self._context)

    def take_in(self, segment: Segment) -> None:
        """A segment arrived at this end's kernel."""
        if self.is_gone:
            if segment is not Signal.RESET:
                self._fabric.transmit(self, Signal.RESET)
            return
        if segment is Signal.RESET:
            self._inbox.clear()
            if self._buffer:  # Whoever is blocked in writing notices without reading.
                self._loop.call_soon(self._on_reset, context=self._context)
                return
        self._inbox.append(segment)

    def credit(self, size: int) -> None:
        """The peer's protocol has taken `size` bytes."""
        self.in_flight -= size
        if not self.is_gone and self._buffer:
            self._loop.call_soon(self._pump, context=self._context)

    def lose_process(self) -> None:
        """kill -9: the kernel closes the connection for the dead."""
        if not self.is_gone:
            self._leave()

    def lose_power(self) -> None:
        """Silence: nobody closes anything, and what was in flight is lost."""
        self.is_gone = True
        self.wire.clear()
        self._fabric.forget(self)

    @property
    def _context(self) -> Context:
        return self.process.context

    def _current(self) -> asyncio.BaseProtocol:
        invariant(self._protocol is not None, "a connected transport has a protocol")
        return self._protocol  # type: ignore[return-value]

    def _pump(self) -> None:
        while self._buffer and self.in_flight < WINDOW_BYTES and not self.is_gone:
            data = self._buffer.popleft()
            if len(data) > SEGMENT_BYTES_MAX:
                self._buffer.appendleft(data[SEGMENT_BYTES_MAX:])
                data = data[:SEGMENT_BYTES_MAX]
            self._buffered -= len(data)
            self.in_flight += len(data)
            self._fabric.transmit(self, data)
        if not self._buffer:
            if self._has_written_eof and not self._has_sent_fin:
                self._has_sent_fin = True
                self._fabric.transmit(self, Signal.FIN)
            if self._is_closing:
                self._end(None)
        if self._is_write_paused and self._buffered <= self._low_water:
            self._is_write_paused = False
            self._current().resume_writing()

    @property
    def _is_delivery_due(self) -> bool:
        return bool(self._inbox) and self._is_reading and self._protocol is not None and not self._is_delivering

    def _schedule_delivery(self) -> None:
        if self._is_delivery_due:
            self._is_delivering = True
            self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._is_delivering = False
        if not self._is_reading or self._is_closing or not self._inbox:
            return
        head = self._inbox.popleft()
        if head is Signal.RESET:
            self._on_reset()
        elif head is Signal.FIN:
            self._on_eof()
        elif isinstance(head, bytes):
            self._on_data(self._joined(head))
        self._schedule_delivery()

    def _joined(self, head: bytes) -> bytes:
        pieces, size = [head], len(head)
        while (
            self._inbox and isinstance(following := self._inbox[0], bytes) and size + len(following) <= _READ_BYTES_MAX
        ):
            pieces.append(following)
            size += len(following)
            self._inbox.popleft()
        return b"".join(pieces)

    def _on_data(self, data: bytes) -> None:
        self._fabric.acknowledge(self, len(data))
        protocol = self._current()
        if isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and not self._is_closing:
                room = memoryview(protocol.get_buffer(len(rest))).cast("B")
                count = min(len(room), len(rest))
                room[:count] = rest[:count]
                rest = rest[count:]
                protocol.buffer_updated(count)
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)

    def _on_eof(self) -> None:
        protocol = self._current()
        keeps_open = isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol) and protocol.eof_received()
        if not keeps_open:
            self.close()

    def _on_reset(self) -> None:
        self._fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def _fail(self, error: Exception | None) -> None:
        self._buffer.clear()
        self._buffered = 0
        self._is_closing = True
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self.is_gone and not self._is_ending:
            self._is_ending = True
            self._loop.call_soon(self._call_connection_lost, error, context=self._context)

    def _call_connection_lost(self, error: Exception | None) -> None:
        if not self.is_gone:
            self._leave(silently=error is not None)
        self._current().connection_lost(error)

    def _leave(self, *, silently: bool = False) -> None:
        self.is_gone = True
        self._fabric.forget(self)
        has_unread = any(isinstance(segment, bytes) for segment in self._inbox)
        if not silently:
            if self._socket.is_reset_on_close:
                self._fabric.forget_undelivered(self)
            if has_unread or self._socket.is_reset_on_close:
                self._fabric.transmit(self, Signal.RESET)
            elif not self._has_sent_fin:
                self._has_sent_fin = True
                self._fabric.transmit(self, Signal.FIN)

"""Bytes of a connection cut into frames, without IO: a 4-byte size, then that many bytes."""

from __future__ import annotations

from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import INT32, Buffer


class FrameReader:
    """Fed with whatever arrives; gives back whole frames. Holds at most one unfinished frame of at most `max_bytes`."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._unfinished = bytearray()

    def feed(self, data: bytes) -> list[Buffer]:
        """The frames that `data` completes, without their sizes. Raises MalformedMessage for a size no peer may claim."""
        if self._unfinished:
            self._unfinished += data
            if len(self._unfinished) < self._wanted(self._unfinished):
                return []
            data, self._unfinished = bytes(self._unfinished), bytearray()
        frames: list[Buffer] = []
        view = memoryview(data)
        while len(view) >= (wanted := self._wanted(view)):
            frames.append(view[INT32.size : wanted])
            view = view[wanted:]
        self._unfinished += view
        return frames

    def _wanted(self, start: Buffer) -> int:
        """How long a buffer must be that begins like this to hold a whole frame."""
        if len(start) < INT32.size:
            return INT32.size
        (size,) = INT32.unpack_from(start)
        if not 0 <= size <= self._max_bytes:
            raise MalformedMessage(f"a frame of {size} bytes where at most {self._max_bytes} are accepted")
        return INT32.size + int(size)

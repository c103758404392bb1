"""Bytes of a stream into frames, without IO.

A frame is an int32 size and that many bytes. Memory follows the bytes received, never the size a peer merely announces, and a frame is
handed on as a `bytearray` because the produce path stamps offsets into it in place. Client and server cut their streams with it.
"""

from __future__ import annotations

from typing import Final

from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import INT32

_PRODUCE: Final = b"\0\0"  # The key at the start of a request that carries records.


def carries_records(frame: bytearray) -> bool:
    """Whether a request is a Produce: the only kind that may be large, and whose bytes live on in what was decoded of it."""
    return frame.startswith(_PRODUCE)


class FrameRefused(MalformedMessage):
    """The peer announced a frame nobody should read; the connection is closed before anything is allocated for it."""


class FrameDecoder:
    """Feed it what arrives, get the frames that are complete.

    A broker gives a bound for requests without records, which is told by the API key as soon as two bytes of the frame are there.
    """

    def __init__(self, *, size_max: int, recordless_size_max: int | None = None) -> None:
        self._size_max = size_max
        self._recordless_size_max = size_max if recordless_size_max is None else recordless_size_max
        self._prefix = b""  # The first bytes of a size, where a chunk ended inside one.
        self._frame: bytearray | None = None  # The frame under way; None between frames.
        self._missing = 0  # Bytes the frame under way still lacks.

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._prefix) + (len(self._frame) if self._frame is not None else 0)

    @property
    def is_midway(self) -> bool:
        """Whether part of a frame has arrived and the rest has not."""
        return self._frame is not None or bool(self._prefix)

    @property
    def missing_bytes(self) -> int:
        """How much the frame under way lacks, as far as is known."""
        return self._missing if self._frame is not None else 0

    def clear(self) -> None:
        """Forget the frame under way; nothing is fed any more."""
        self._prefix, self._frame, self._missing = b"", None, 0

    def feed(self, data: bytes) -> list[bytearray]:
        """The frames completed by `data`, in order. Raises FrameRefused."""
        frames: list[bytearray] = []
        position = 0
        if self._frame is not None:
            position = self._continue(data, frames)
        while position < len(data):
            position = self._begin(data, position, frames)
        return frames

    def _continue(self, data: bytes, frames: list[bytearray]) -> int:
        """Add to the frame under way; where in `data` it ended."""
        frame = self._frame
        if frame is None:
            return 0
        taken = min(self._missing, len(data))
        is_undecided = len(frame) < len(_PRODUCE)
        frame += data if taken == len(data) else memoryview(data)[:taken]
        self._missing -= taken
        if is_undecided:
            self._check_kind(frame, len(frame) + self._missing)
        if self._missing == 0:
            frames.append(frame)
            self._frame = None
        return taken

    def _begin(self, data: bytes, position: int, frames: list[bytearray]) -> int:
        """Read a size at `position` and as much of its frame as is there; where the next frame begins."""
        if self._prefix or len(data) - position < INT32.size:
            lacking = INT32.size - len(self._prefix)
            self._prefix += data[position : position + lacking]
            position = min(position + lacking, len(data))
            if len(self._prefix) < INT32.size:
                return position
            size = self._checked(INT32.unpack(self._prefix)[0])
            self._prefix = b""
        else:
            size = self._checked(INT32.unpack_from(data, position)[0])
            position += INT32.size
        end = position + size
        frame = bytearray(memoryview(data)[position:end])
        if size > self._recordless_size_max:
            self._check_kind(frame, size)
        if len(frame) == size:
            frames.append(frame)
        else:
            self._frame = frame
            self._missing = size - len(frame)
        return min(end, len(data))

    def _checked(self, size: int) -> int:
        if size < 0 or size > self._size_max:
            raise FrameRefused(f"a frame of {size} bytes is announced; accepted are 0 to {self._size_max}")
        return size

    def _check_kind(self, frame: bytearray, size: int) -> None:
        if size > self._recordless_size_max and len(frame) >= len(_PRODUCE) and not carries_records(frame):
            raise FrameRefused(
                f"a request without records of {size} bytes is announced; accepted are {self._recordless_size_max}"
            )

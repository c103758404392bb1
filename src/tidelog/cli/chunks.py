"""Reading stdin and files without holding the event loop, and without being held by them at exit."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 256 << 10


async def chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    """What the stream has, as it comes: a terminal or a pipe gives less than a whole chunk at a time."""
    while chunk := await _read(stream):
        yield chunk


async def _read(stream: BinaryIO) -> bytes:
    """One read in a thread that nobody waits for: Ctrl-C must not wait for the next line to be typed, as an executor would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def settle(chunk: bytes, error: OSError | None) -> None:
        if not done.done():
            done.set_result(chunk) if error is None else done.set_exception(error)

    def read() -> None:
        try:
            chunk, error = _some(stream), None
        except OSError as failure:
            chunk, error = b"", failure
        try:
            loop.call_soon_threadsafe(settle, chunk, error)
        except RuntimeError:  # the loop is closed: the command ended while we waited for input
            return

    threading.Thread(target=read, daemon=True).start()
    return await done


def _some(stream: BinaryIO) -> bytes:
    """Straight from the file, if there is one: a thread that waits in Python's buffer holds its lock, and Python cannot end without it."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return stream.read(CHUNK_BYTES)
    return os.read(descriptor, CHUNK_BYTES)

"""One process at a time opens a registry file and makes it what it should be.

SQLite lets several processes in at once, but not while one of them turns the file into one with a write-ahead log: then it tells the others
at once that the file is locked, however long they were willing to wait. Brokers that start together would die of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from typing import Final

from tidelog.registry.errors import RegistryUnavailable

_LOOK_AGAIN_MS: Final = 5


@contextlib.contextmanager
def opening(path: str, *, timeout_ms: int) -> Iterator[None]:
    """Hold the right to open the file at `path`, a lock on its directory that falls with the process.

    Raises RegistryUnavailable where it cannot be had in time.
    """
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _wait_for(descriptor, path, timeout_ms)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: str, timeout_ms: int) -> None:
    pause = threading.Event()  # never set: nobody cuts the wait short
    for _ in range(timeout_ms // _LOOK_AGAIN_MS + 1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_LOOK_AGAIN_MS / 1000)
        else:
            return
    raise RegistryUnavailable(path, "another process is opening the file", may_pass=True)

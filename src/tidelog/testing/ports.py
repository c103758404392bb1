"""Ports for brokers of tests, which are started, and started again."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import Final

from tidelog.testing.errors import ClusterFailed

PORTS: Final = range(10_011, 29_989)  # below those that the kernel gives to outgoing connections

#: Locks of the ports that this process was given: they are its own, among all tests of this user, until it ends or gives them back.
_reserved: Final[dict[int, int]] = {}


def free_ports(count: int, *, in_a_row: bool = False) -> list[int]:
    """Ports of loopback that nobody listens on now, and that no other test process is given while this one has them.

    The kernel gives none of them to an outgoing connection, so that a process that is started again finds its port free. Raises
    ClusterFailed.
    """
    found: list[int] = []
    for port in PORTS:
        if _is_free(port):
            found.append(port)
        elif in_a_row:
            give_back(found)
            found.clear()
        if len(found) == count:
            return found
    give_back(found)
    raise ClusterFailed(f"no {count} ports of loopback are free from {PORTS.start} to {PORTS.stop - 1}")


def give_back(ports: list[int]) -> None:
    """Let others have them."""
    for port in ports:
        if (descriptor := _reserved.pop(port, None)) is not None:
            os.close(descriptor)


def _is_free(port: int) -> bool:
    if port in _reserved or not _reserve(port):
        return False
    with socket.socket() as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            give_back([port])
            return False
    return True


def _reserve(port: int) -> bool:
    """Lock the port's file; the lock ends with this process, however it ends (children do not inherit it)."""
    directory = Path(tempfile.gettempdir()) / f"tidelog-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    descriptor = os.open(directory / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _reserved[port] = descriptor
    return True

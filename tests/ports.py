"""Ports for processes that tests start, and start again."""

from __future__ import annotations

import itertools
import os
import socket
import time
from typing import Final

PORTS: Final = range(10_011, 29_989)  # below those that the kernel gives to outgoing connections

#: Where this process goes on looking; other processes began elsewhere.
_candidates: Final = itertools.count(os.getpid() * 37 + time.monotonic_ns() // 1_000_000)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now, none given out before by this process.

    The kernel gives none of them to an outgoing connection, so that a process that is started again finds its port free.
    """
    found: list[int] = []
    for number in itertools.islice(_candidates, len(PORTS)):
        port = PORTS[number % len(PORTS)]
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")

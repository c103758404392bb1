"""Waiting for facts about other processes: look, pause, look again, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 90  # bounds what hangs; it is no verdict
_PAUSE_S: Final = 0.05
_pause: Final = threading.Event()  # never set: something to wait on between two looks at the world


class NeverHappened(AssertionError):
    """What was waited for did not become true in time."""


def eventually(look: Callable[[], T | None], what: str, *, timeout_s: float = PATIENCE_S) -> T:
    """What `look` finds, as soon as it finds something that is true. Raises NeverHappened after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise NeverHappened(f"not within {timeout_s} s: {what}")
        _pause.wait(_PAUSE_S)
    return found

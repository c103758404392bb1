"""Which event loop serves: uvloop where it is installed, plain asyncio elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The best loop this machine has."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end on the best loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)

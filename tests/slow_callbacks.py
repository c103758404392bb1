"""For tests that load a real loop: fail if any callback held it for over 100 ms.

async def test_body() -> None:
    with no_slow_callbacks():
        await load(broker)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.runtime.real_watchdog import SLOW_MS, sampled_loop


@contextmanager
def no_slow_callbacks(*, slow_ms: float = SLOW_MS) -> Iterator[None]:
    with sampled_loop(slow_ms=slow_ms) as sampler:
        yield
    assert sampler.beats > 0, "the watchdog itself must have run"
    assert not sampler.found, "\n".join(map(str, sampler.found))

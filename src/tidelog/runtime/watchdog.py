"""How late the loop is. One heartbeat task per process feeds a histogram and logs when something held the loop for too long.

It measures on every loop: asyncio's own slow-callback log does not exist under uvloop. Who held the loop is what `real_watchdog` finds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tidelog.runtime.clock import Clock
from tidelog.runtime.logs import fields
from tidelog.runtime.metrics import Metrics

HEARTBEAT_MS: Final = 50
LATE_MS: Final = 100

logger = logging.getLogger(__name__)


async def watch_loop(clock: Clock, metrics: Metrics) -> None:
    """Runs until cancelled, in the task group of the process. In simulation it is never late."""
    lag_ms = metrics.histogram("tidelog_loop_lag_ms")
    late_total = metrics.counter("tidelog_loop_late_total")
    while True:
        expected_ms = clock.monotonic_ms() + HEARTBEAT_MS
        await asyncio.sleep(HEARTBEAT_MS / 1000)
        late_ms = max(clock.monotonic_ms() - expected_ms, 0.0)
        lag_ms.observe(late_ms)
        if late_ms > LATE_MS:
            late_total.add()
            logger.warning("loop was held up", extra=fields(late_ms=round(late_ms)))

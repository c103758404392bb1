"""Who held the loop: a sampling thread that takes the stack of the loop's thread while a callback runs for too long.

Works for asyncio and uvloop alike, since it looks from outside. Time during which the machine gave the loop's thread no processor is
not held against the callback (Linux counts it in `schedstat`), so a busy machine makes no false findings.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SLOW_MS: Final = 100.0
_SAMPLE_MS: Final = 10.0
_KEPT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCallback:
    """One time the loop did not come round: for how long, and where it was."""

    duration_ms: float
    stack: str

    def __str__(self) -> str:
        return f"the loop was held for {self.duration_ms:.0f} ms in\n{self.stack}"


class LoopSampler:
    """Start it on the running loop, stop it before the loop ends, then read `found` (at most the first hundred)."""

    def __init__(self, *, slow_ms: float = SLOW_MS) -> None:
        self.found: list[SlowCallback] = []
        self.beats = 0
        self._slow_ms = slow_ms
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="loop-sampler", daemon=True)

    def start(self) -> None:
        """Called on the loop."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._run_delay = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._beat()
        self._sampler.start()

    def stop(self) -> None:
        """Called on the loop or after it."""
        self._stopped.set()
        self._sampler.join()
        self._timer.cancel()

    def _beat(self) -> None:
        self.beats += 1
        self._timer = self._loop.call_later(_SAMPLE_MS / 1000, self._beat)

    def _sample(self) -> None:
        seen, since_ms, starved_ms, stack = self.beats, _now_ms(), self._starved_ms(), ""
        while not self._stopped.wait(_SAMPLE_MS / 1000):
            if self.beats == seen:
                if not stack and _now_ms() - since_ms > self._slow_ms / 2:
                    stack = self._stack()
                continue
            self._judge(_now_ms() - since_ms - (self._starved_ms() - starved_ms), stack)
            seen, since_ms, starved_ms, stack = self.beats, _now_ms(), self._starved_ms(), ""
        self._judge(_now_ms() - since_ms - (self._starved_ms() - starved_ms), stack)

    def _judge(self, held_ms: float, stack: str) -> None:
        # Between two beats lie the timer's own wait and up to two samples of not looking.
        duration_ms = held_ms - 3 * _SAMPLE_MS
        if stack and duration_ms > self._slow_ms and len(self.found) < _KEPT_MAX:
            self.found.append(SlowCallback(duration_ms=duration_ms, stack=stack))

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001  # the documented way to look at another thread
        return "(gone)" if frame is None else "".join(traceback.format_stack(frame)[-12:])

    def _starved_ms(self) -> float:
        try:
            return int(self._run_delay.read_text().split()[1]) / 1e6
        except (OSError, IndexError, ValueError):
            return 0.0  # No such count on this platform: a busy machine may then cause findings.


@contextmanager
def sampled_loop(*, slow_ms: float = SLOW_MS) -> Iterator[LoopSampler]:
    """Watch the running loop for the length of a `with`."""
    sampler = LoopSampler(slow_ms=slow_ms)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def _now_ms() -> float:
    return time.monotonic() * 1000

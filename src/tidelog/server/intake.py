"""The receiving half of a connection: bytes in, frames queued, and the decision whether to read on.

Three bounds decide it: those of the connection (requests and bytes that queue), the budget of the broker, and the time a frame may take.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.runtime import Clock
from tidelog.server.budget import RequestBudget
from tidelog.wire.stream import FrameDecoder, carries_records


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How much one connection may ask of us."""

    request_bytes_max: int
    recordless_request_bytes_max: int = 2 << 20  # Of every API but Produce.
    queued_requests_max: int = 16
    queued_bytes_max: int = 4 << 20
    idle_ms_max: int = 600_000
    write_stall_ms_max: int = 60_000
    frame_ms_max: int = 30_000  # For the first byte to the last; every 64 KiB received buy another second.


class Source(Protocol):
    """Where the bytes come from."""

    def pause(self) -> None:
        """Read no more for now."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def end_under_pressure(self) -> None:
        """Hang up: what this connection holds is needed."""
        ...


class Intake:
    """Frames of one connection that wait to be served. A holder of the broker's budget."""

    def __init__(self, limits: ConnectionLimits, budget: RequestBudget, clock: Clock, source: Source) -> None:
        self._limits = limits
        self._budget = budget
        self._clock = clock
        self._source = source
        self._decoder = FrameDecoder(
            size_max=limits.request_bytes_max, recordless_size_max=limits.recordless_request_bytes_max
        )
        self._queue: deque[bytearray] = deque()
        self._queued_bytes = 0
        self._waiting_requests = 0
        self._waiting_bytes = 0  # Of the requests in work, where their bytes live on.
        self._is_reading = True
        self._is_unfinished = False
        self._frame_since_ms = 0.0
        self._told_bytes = self._told_requests = 0  # What the budget knows of.
        budget.join(self)

    # Frames.

    def feed(self, data: bytes) -> None:
        """Queue what `data` completes. Raises FrameRefused."""
        frames = self._decoder.feed(data)
        for frame in frames:
            self._queue.append(frame)
            self._queued_bytes += len(frame)
        if self._decoder.is_midway:
            if frames or not self._is_unfinished:
                self._is_unfinished = True
                self._frame_since_ms = self._clock.monotonic_ms()
                self._budget.begin_frame(self)
        elif self._is_unfinished:
            self._is_unfinished = False
            self._budget.finish_frame(self)

    @property
    def has_queued(self) -> bool:
        """Whether a frame is there to serve."""
        return bool(self._queue)

    def take(self) -> bytearray | None:
        """The next frame to serve."""
        if not self._queue:
            return None
        frame = self._queue.popleft()
        self._queued_bytes -= len(frame)
        return frame

    @property
    def is_produce_next(self) -> bool:
        """Whether the next frame carries records."""
        return bool(self._queue) and carries_records(self._queue[0])

    def begin_waiting(self, frame: bytearray) -> int:
        """The request in `frame` is not answered yet; what it holds meanwhile, which of the others than Produce is nothing."""
        held_bytes = len(frame) if carries_records(frame) else 0
        self._waiting_requests += 1
        self._waiting_bytes += held_bytes
        return held_bytes

    def end_waiting(self, held_bytes: int) -> None:
        """A request is answered now that held so much."""
        self._waiting_requests -= 1
        self._waiting_bytes -= held_bytes

    def settle(self) -> None:
        """Tell the budget what is held now, and read on or not. Called when everything that can be served has been."""
        held = self._decoder.buffered_bytes + self._queued_bytes + self._waiting_bytes
        requests = len(self._queue)
        if held != self._told_bytes or requests != self._told_requests:
            bytes_more, requests_more = held - self._told_bytes, requests - self._told_requests
            self._told_bytes, self._told_requests = held, requests
            self._budget.hold(bytes_more, requests_more)
        self.regulate_reading()

    def close(self) -> None:
        """Give everything back."""
        self._queue.clear()
        self._decoder.clear()
        self._queued_bytes = 0
        self._budget.leave(self)
        self._budget.hold(-self._told_bytes, -self._told_requests)
        self._told_bytes = self._told_requests = 0

    def is_overdue(self, now_ms: float) -> bool:
        """Whether a frame takes too long although it is being read: a client that sends a byte now and then."""
        if not self._is_unfinished or not self._is_reading:
            return False
        earned_ms = self._decoder.buffered_bytes / _BYTES_PER_MS
        return now_ms - self._frame_since_ms > self._limits.frame_ms_max + earned_ms

    # A holder of the budget.

    @property
    def can_read_on(self) -> bool:
        """Whether the connection's own limits allow it."""
        is_full = (
            len(self._queue) >= self._limits.queued_requests_max or self._queued_bytes >= self._limits.queued_bytes_max
        )
        return not is_full and not (self._budget.is_crowded and (self._waiting_requests or self._queue))

    @property
    def missing_bytes(self) -> int:
        """What the unfinished frame lacks."""
        return self._decoder.missing_bytes

    @property
    def reclaimable_bytes(self) -> int:
        """Everything but what waits for our disk: produced records, and what queues behind them."""
        is_our_fault = self._waiting_bytes > 0
        return self._decoder.buffered_bytes + (0 if is_our_fault else self._queued_bytes)

    def regulate_reading(self) -> None:
        """Read exactly while every bound allows it."""
        may_read = self.can_read_on and self._budget.may_read(self)
        if may_read and not self._is_reading:
            self._is_reading = True
            self._frame_since_ms = self._clock.monotonic_ms()  # The time we did not listen is not the sender's.
            self._source.resume()
        elif not may_read and self._is_reading:
            self._is_reading = False
            self._source.pause()

    def reclaim(self) -> None:
        """End the connection because others need what it holds."""
        self._source.end_under_pressure()


_BYTES_PER_MS: Final = (
    64.0  # 64 KiB a second is slow for a producer and fast for an attacker who wants to hold a frame.
)

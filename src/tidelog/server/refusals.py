"""Who was sent away and why: one log line each, but never so many that a flood of bad clients fills the disk, and a count per reason."""

from __future__ import annotations

import enum
import logging
from typing import Final

from tidelog.runtime import Address, Clock, Metrics
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

REFUSED_TOTAL: Final = "tidelog_connections_refused_total"
LINES_AT_ONCE: Final = 20
LINE_EVERY_MS: Final = 1_000
_REASON_LENGTH_MAX: Final = 200


class Refusal(enum.StrEnum):
    """Why a connection was ended by us; the label of the count."""

    FRAME = "frame"  # a size nobody should read
    MALFORMED = "malformed"  # bytes that are no request
    UNSERVED = "unserved"  # an API or version that is not there
    UNANSWERABLE = "unanswerable"  # acks=0 has no other way to hear of an error
    TOO_MANY = "too_many"  # max.connections, max.connections.per.ip
    SLOW_SENDER = "slow_sender"  # a frame that does not get finished
    SLOW_READER = "slow_reader"  # answers that are not read
    PRESSURE = "pressure"  # held memory that others need
    BUG = "bug"  # ours


class ConnectionRefused(Exception):
    """The peer sent something that has no answer; its connection is closed."""

    def __init__(self, reason: str, kind: Refusal = Refusal.UNANSWERABLE) -> None:
        super().__init__(reason)
        self.kind = kind


class RefusalLog:
    """Counts every refusal and writes the first ones of a burst down, then one a second; the others are told as a number.

    Bugs have lines of their own: a flood of bad clients hides none of them.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._counters = {kind: metrics.counter(REFUSED_TOTAL, reason=kind.value) for kind in Refusal}
        self._lines = _Allowance(clock)
        self._lines_of_bugs = _Allowance(clock)
        self._untold = 0

    def note(self, peer: Address, kind: Refusal, reason: str, bug: Exception | None = None) -> None:
        """One connection was refused. A reason may quote the client, so it is cut here and escaped by the renderer."""
        self._counters[kind].add()
        lines = self._lines if bug is None else self._lines_of_bugs
        if not lines.take():
            self._untold += 1
            return
        cut = reason if len(reason) <= _REASON_LENGTH_MAX else f"{reason[:_REASON_LENGTH_MAX]}..."
        told = fields(peer=peer, kind=kind.value, reason=cut)
        if bug is not None:
            logger.error("request failed", extra=told, exc_info=bug)
        else:
            logger.warning("connection refused", extra=told)

    def tell_the_rest(self) -> None:
        """Say how many were refused without a line; called now and then."""
        if self._untold and self._lines.take():
            logger.warning("connections refused without a line", extra=fields(count=self._untold))
            self._untold = 0


class _Allowance:
    """So many lines at once, and then one now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines_left = float(LINES_AT_ONCE)
        self._refilled_ms = clock.monotonic_ms()

    def take(self) -> bool:
        """Whether one more may be written; it counts as written."""
        now_ms = self._clock.monotonic_ms()
        refilled = self._lines_left + (now_ms - self._refilled_ms) / LINE_EVERY_MS
        self._lines_left = min(refilled, LINES_AT_ONCE)
        self._refilled_ms = now_ms
        if self._lines_left < 1:
            return False
        self._lines_left -= 1
        return True

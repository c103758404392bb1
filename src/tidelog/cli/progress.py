"""One line that tells how far long work has come: on a terminal's stderr, never in a pipe, and never where it would disturb records."""

from __future__ import annotations

import sys
from typing import Final, TextIO

from tidelog.cli.output import size
from tidelog.runtime.clock import Clock

QUIET_AT_FIRST_MS: Final = 1_000
BETWEEN_SHOWS_MS: Final = 200
_ERASE: Final = "\r\x1b[K"


class Progress:
    """Counts records and bytes, and shows them from the second second on. Without an output it only counts."""

    def __init__(self, verb: str, clock: Clock, out: TextIO | None) -> None:
        self._verb = verb
        self._clock = clock
        self._out = out
        self._started_ms = clock.monotonic_ms()
        self._next_show_ms = self._started_ms + QUIET_AT_FIRST_MS
        self._is_shown = False
        self.record_count = 0
        self.byte_count = 0

    def add(self, record_count: int, byte_count: int) -> None:
        """So much more is done."""
        self.record_count += record_count
        self.byte_count += byte_count
        if self._out is not None and (now_ms := self._clock.monotonic_ms()) >= self._next_show_ms:
            self._next_show_ms = now_ms + BETWEEN_SHOWS_MS
            self._is_shown = True
            self._out.write(_ERASE + self._line(now_ms))
            self._out.flush()

    def end(self) -> None:
        """Leave the last count as a line of its own, if there was one at all."""
        if self._out is not None and self._is_shown:
            self._out.write(_ERASE + self._line(self._clock.monotonic_ms()) + "\n")
            self._out.flush()
            self._is_shown = False

    def _line(self, now_ms: float) -> str:
        seconds = max(now_ms - self._started_ms, 1) / 1000
        return (
            f"{self._verb} {self.record_count:,} records, {size(self.byte_count)} in {seconds:.1f} s"
            f" ({self.record_count / seconds:,.0f} records/s, {size(self.byte_count / seconds)}/s)"
        )


def progress(verb: str, clock: Clock, *, is_wanted: bool) -> Progress:
    """A progress that shows itself if it is wanted and stderr is a terminal."""
    return Progress(verb, clock, sys.stderr if is_wanted and sys.stderr.isatty() else None)

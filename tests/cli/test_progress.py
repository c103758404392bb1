"""Progress: silent at first, never in a pipe, in units people read."""

from __future__ import annotations

import io

from tidelog.cli.progress import Progress


class Watch:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0

    def give_way(self) -> None:
        """Nobody waits."""


def test_short_work_shows_nothing() -> None:
    out, watch = io.StringIO(), Watch()
    progress = Progress("sent", watch, out)
    watch.now_ms = 900
    progress.add(1000, 10_000)
    progress.end()
    assert out.getvalue() == ""


def test_long_work_is_shown_now_and_then_and_at_the_end() -> None:
    out, watch = io.StringIO(), Watch()
    progress = Progress("sent", watch, out)
    for watch.now_ms in (1000, 1010, 1150, 2000):
        progress.add(500, 1_000_000)
    progress.end()
    *shows, last = out.getvalue().split("\r\x1b[K")[1:]
    assert len(shows) == 2
    assert last == "sent 2,000 records, 4.0 MB in 2.0 s (1,000 records/s, 2.0 MB/s)\n"


def test_without_an_output_it_only_counts() -> None:
    watch = Watch()
    progress = Progress("sent", watch, None)
    watch.now_ms = 5000
    progress.add(2, 3)
    progress.end()
    assert (progress.record_count, progress.byte_count) == (2, 3)

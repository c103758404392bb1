"""Points in time and durations, as people read them."""

from __future__ import annotations

import pytest

from tidelog.cli.moments import duration, moment


@pytest.mark.parametrize(
    ("timestamp_ms", "said"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_769_864_400_250, "2026-01-31T13:00:00.250Z"), (-1, None), (None, None)],
)
def test_a_moment_is_written_in_utc(timestamp_ms: int | None, said: str | None) -> None:
    assert moment(timestamp_ms) == said


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [
        (None, None),
        (-5, "0ms"),
        (350, "350ms"),
        (61_000, "1m1s"),
        (60_500, "1m"),
        (3_600_000, "1h"),
        (86_400_000 * 2 + 3_600_000 * 3 + 59_000, "2d3h"),
        (86_400_000 + 59_000, "1d"),
    ],
)
def test_a_duration_is_told_in_the_units_that_matter(length_ms: int | None, said: str | None) -> None:
    assert duration(length_ms) == said

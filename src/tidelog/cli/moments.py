"""Points in time and how long ago they were, for people."""

from __future__ import annotations

from datetime import UTC, datetime

from tidelog.model import TimestampMs

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def moment(timestamp_ms: TimestampMs | None) -> str | None:
    """`2026-01-31T13:00:00.250Z`; None where there is none."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(length_ms: int | None) -> str | None:
    """`2d3h`, `4m10s` or `350ms`: the two units that matter."""
    if length_ms is None:
        return None
    rest = max(length_ms, 0)
    parts = []
    for unit_ms, name in _UNITS:
        count, rest = divmod(rest, unit_ms)
        parts.append(f"{count}{name}")
    first = next((index for index, part in enumerate(parts) if part[:-1] != "0"), None)
    if first is None:
        return f"{rest}ms"
    return "".join(part for part in parts[first : first + 2] if part[:-1] != "0")

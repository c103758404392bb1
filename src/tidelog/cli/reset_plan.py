"""Where a reset moves the offsets of a group: the words that say so, and what they come to. Pure."""

from __future__ import annotations

import csv
import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tidelog.model import Offset, TimestampMs, TopicPartition

_ISO_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SHORT_DURATION: Final = re.compile(r"(\d+)([dhms])", re.IGNORECASE)
_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


class Edge(enum.Enum):
    """A target that is a place, not a number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class ToOffset:
    """The same offset in every partition."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on, or back."""

    count: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record of this time or later."""

    timestamp_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class ToListed:
    """What a file says."""

    offsets: Mapping[TopicPartition, Offset]


Target = Edge | ToOffset | ShiftBy | ToTime | ToListed


class Known(NamedTuple):
    """What is known of a partition before a reset."""

    start: Offset
    end: Offset
    current: Offset | None
    at_time: Offset | None = None  # for ToTime: the record found, None if the log has none so young


class Move(NamedTuple):
    """What becomes of a partition, and what to warn of."""

    offset: Offset
    warning: str | None = None


def planned(target: Target, key: TopicPartition, known: Known) -> Move:
    """Where a partition goes. Raises ValueError where the target makes no sense for it."""
    match target:
        case Edge.EARLIEST:
            return Move(known.start)
        case Edge.LATEST:
            return Move(known.end)
        case Edge.CURRENT:
            return Move(known.end if known.current is None else known.current)
        case ToTime():
            return Move(known.end if known.at_time is None else known.at_time)
        case ToOffset():
            return _clamped(target.offset, key, known)
        case ShiftBy():
            if known.current is None:
                raise ValueError(f"{key.topic}:{key.index} has no committed offset to shift")
            return _clamped(known.current + target.count, key, known)
        case ToListed():
            return _clamped(target.offsets[key], key, known)


def _clamped(offset: Offset, key: TopicPartition, known: Known) -> Move:
    if offset > known.end:
        return Move(known.end, f"{key.topic}:{key.index}: {offset} is beyond the end of the log; taking {known.end}")
    if offset < known.start:
        return Move(known.start, f"{key.topic}:{key.index}: {offset} is before its beginning; taking {known.start}")
    return Move(offset)


def parse_datetime(text: str) -> TimestampMs:
    """Read `2026-01-31T13:00:00` with or without fractions and zone; without a zone it is UTC. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; accepted is YYYY-MM-DDTHH:MM:SS, with a zone or in UTC") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Read `PT1H30M` or `P7D`, or for short `90m`, `7d`. Raises ValueError."""
    short = _SHORT_DURATION.fullmatch(text)
    if short is not None:
        return int(short[1]) * _MS[short[2].lower()]
    long = _ISO_DURATION.fullmatch(text)
    if long is None or not any(long.groups()):
        raise ValueError(f"{text!r} is no duration; accepted is PnDTnHnMnS, or 7d, 12h, 90m, 30s")
    days, hours, minutes, seconds = (float(part or 0) for part in long.groups())
    return round(days * _MS["d"] + hours * _MS["h"] + minutes * _MS["m"] + seconds * _MS["s"])


def read_offsets(lines: Iterable[str]) -> dict[TopicPartition, Offset]:
    """Read lines `topic,partition,offset`, as `--export` and Kafka's tool write them. Raises ValueError."""
    offsets = {}
    for number, row in enumerate(csv.reader(lines), start=1):
        if not row:
            continue
        if len(row) != 3 or not all(part.strip().isascii() and part.strip().isdigit() for part in row[1:]):
            raise ValueError(f"line {number} is not of the form topic,partition,offset: {','.join(row)!r}")
        offsets[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    if not offsets:
        raise ValueError("there is no line of the form topic,partition,offset")
    return offsets

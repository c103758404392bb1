"""Where to start and where to end: the words kcat's users type after `-o`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


class Edge(enum.Enum):
    """One of the two ends of a log."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class At:
    """An offset, counted from the start of time."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """So many records before the end, or as many as there are."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Position: TypeAlias = Edge | At | BeforeEnd | AtTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What to read: from `start` until `end`, which is None for ever."""

    start: Position = Edge.BEGINNING
    end: AtTime | None = None


POSITION_HELP = "beginning | end | OFFSET | -COUNT (from the end) | s@MS (from that time) | e@MS (until that time)"
_WORDS = {"beginning": Edge.BEGINNING, "earliest": Edge.BEGINNING, "end": Edge.END, "latest": Edge.END}


def parse_range(words: Sequence[str]) -> Range:
    """Read the values of all `-o`; one may say where to start and one, `e@...`, where to end. Raises ValueError."""
    starts = [word for word in words if not word.startswith("e@")]
    ends = [word for word in words if word.startswith("e@")]
    if len(starts) > 1 or len(ends) > 1:
        raise ValueError(f"-o may say once where to start and once where to end, not: {' '.join(words)}")
    return Range(
        start=parse_position(starts[0]) if starts else Edge.BEGINNING,
        end=AtTime(_number(ends[0].removeprefix("e@"), ends[0])) if ends else None,
    )


def parse_position(word: str) -> Position:
    """Read one position. Raises ValueError."""
    if word in _WORDS:
        return _WORDS[word]
    if word == "stored":
        raise ValueError(
            "-o stored: offsets are stored for consumer groups, which -g joins; without -o it goes on there"
        )
    if word.startswith("s@"):
        return AtTime(_number(word.removeprefix("s@"), word))
    if word.startswith("-"):
        return BeforeEnd(_number(word[1:], word))
    return At(_number(word, word))


def _number(digits: str, word: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 1 << 63:
        raise ValueError(f"{word!r} is no position; accepted is {POSITION_HELP}")
    return int(digits)

"""What a setting's text may be: for each kind what is accepted, how it is read, and how it is written back.

`parse` raises ValueError for anything else; the setting that owns the text turns it into a ConfigError. Where Kafka
writes -1 or the largest long for "no limit", the optional kinds give None, so that nobody compares with a magic number.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from tidelog.model import TimestampType

T = TypeVar("T")

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = sys.float_info.max

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_TIMESTAMP_TYPES: Final = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}


class ValueType(enum.IntEnum):
    """The type of a setting as DescribeConfigs numbers it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """One way to read a setting."""

    value_type: ValueType
    accepted: str
    parse: Callable[[str], T]
    render: Callable[[T], str]


def integer(low: int, high: int = INT_MAX) -> Kind[int]:
    """A whole number in [low, high]; of Kafka's type INT, or LONG where `high` exceeds it."""
    return Kind(
        value_type=_integer_type(high),
        accepted=f"a whole number {_bounds(low, high)}",
        parse=lambda text: _integer_within(text, low, high),
        render=str,
    )


def short(low: int) -> Kind[int]:
    """A whole number from `low` to the largest short."""
    return replace(integer(low, SHORT_MAX), value_type=ValueType.SHORT)


def long(low: int) -> Kind[int]:
    """A whole number from `low` to the largest long."""
    return integer(low, LONG_MAX)


def optional_integer(low: int, *, none: int, high: int = LONG_MAX) -> Kind[int | None]:
    """A whole number in [low, high], or `none`, which means that there is no limit."""

    def parse(text: str) -> int | None:
        if _whole_number(text) == none:
            return None
        return _integer_within(text, low, high)

    return Kind(
        value_type=_integer_type(high),
        accepted=f"a whole number {_bounds(low, high)}, or {none} for no limit",
        parse=parse,
        render=lambda value: str(none if value is None else value),
    )


def ratio(low: float, high: float) -> Kind[float]:
    """A decimal number in [low, high]."""

    def parse(text: str) -> float:
        if _DECIMAL.fullmatch(text) is None or not low <= float(text) <= high:
            raise ValueError(text)
        return float(text)

    return Kind(
        value_type=ValueType.DOUBLE, accepted=f"a number {_bounds(low, high)}", parse=parse, render=_as_java_writes_it
    )


def _as_java_writes_it(number: float) -> str:
    return str(number).replace("e+", "E")


def one_of(*words: str) -> Kind[str]:
    """Exactly one of the words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return Kind(value_type=ValueType.STRING, accepted="one of " + ", ".join(words), parse=parse, render=str)


def list_of(*words: str) -> Kind[tuple[str, ...]]:
    """One or several of the words, separated by commas; none twice."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(word.strip() for word in text.split(","))
        if len(set(chosen)) != len(chosen) or not set(chosen) <= set(words):
            raise ValueError(text)
        return chosen

    return Kind(
        value_type=ValueType.LIST,
        accepted="a comma-separated list of " + ", ".join(words),
        parse=parse,
        render=",".join,
    )


def optional_text(accepted: str) -> Kind[str | None]:
    """Any text; empty means that nothing is set."""
    return Kind(
        value_type=ValueType.STRING,
        accepted=accepted,
        parse=lambda text: text or None,
        render=lambda value: value or "",
    )


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _parse_paths(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(","))
    if "" in paths or len(set(paths)) != len(paths):
        raise ValueError(text)
    return paths


BOOLEAN: Final[Kind[bool]] = Kind(
    value_type=ValueType.BOOLEAN,
    accepted="true or false",
    parse=_parse_boolean,
    render=lambda value: "true" if value else "false",
)
PATHS: Final[Kind[tuple[str, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="a comma-separated list of different directories",
    parse=_parse_paths,
    render=",".join,
)
TIMESTAMP_TYPE: Final[Kind[TimestampType]] = Kind(
    value_type=ValueType.STRING,
    accepted="one of CreateTime, LogAppendTime",
    parse=lambda text: TimestampType(one_of(*_TIMESTAMP_TYPES).parse(text) == "LogAppendTime"),
    render=lambda value: "CreateTime" if value is TimestampType.CREATE_TIME else "LogAppendTime",
)


def _integer_type(high: int) -> ValueType:
    return ValueType.INT if high <= INT_MAX else ValueType.LONG


def _bounds(low: float, high: float) -> str:
    return f"of at least {low}" if high in {INT_MAX, LONG_MAX, DOUBLE_MAX} else f"from {low} to {high}"


def _whole_number(text: str) -> int:
    # int() alone would also take "1_000", " 7 " and digits of other scripts.
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _integer_within(text: str, low: int, high: int) -> int:
    number = _whole_number(text)
    if not low <= number <= high:
        raise ValueError(text)
    return number

"""Where reading begins and ends, as a user says it: an edge of the log, offsets, or times."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.config import ValueType
from tidelog.config.kinds import Kind
from tidelog.model import Offset, TimestampMs, TopicPartition

_NUMBER_MAX: Final = 2**63 - 1


class Edge(enum.IntEnum):
    """Either end of a log, numbered as in the offsets of Spark's options."""

    LATEST = -1
    EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Places:
    """An offset, or an Edge, for each partition."""

    offsets: Mapping[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class Moment:
    """The first record at or after one time, in each partition."""

    timestamp_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class Moments:
    """The first record at or after a time for each partition."""

    timestamps_ms: Mapping[TopicPartition, TimestampMs]


Where: TypeAlias = Edge | Places | Moment | Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound, and the option that set it, for whoever has to complain about it."""

    option: str
    where: Where


def parse_edge_or_places(text: str) -> Edge | Places:
    """Read `earliest`, `latest` or offsets in JSON; raises ValueError."""
    if text.lower() in {"earliest", "latest"}:
        return Edge[text.upper()]
    return Places(_parse_numbers(text, low=Edge.EARLIEST))


def _parse_numbers(text: str, *, low: int) -> dict[TopicPartition, int]:
    """Read `{"topic": {"partition": number}}`; raises ValueError.

    What our source adds to its offsets under keys with @ is passed over: offsets of a query's progress may be pasted as they are.
    """
    try:
        decoded = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(decoded, dict) or not decoded:
        raise ValueError(text)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in decoded.items():
        if topic.startswith("@"):
            continue
        if not isinstance(partitions, dict):
            raise ValueError(text)  # noqa: TRY004  # all that is wrong with a text is a ValueError
        for index, number in partitions.items():
            if (
                type(number) is not int
                or not low <= number <= _NUMBER_MAX
                or not index.isascii()
                or not index.isdigit()
            ):
                raise ValueError(text)
            numbers[TopicPartition(topic, int(index))] = number
    if not numbers:
        raise ValueError(text)
    return numbers


def _render_numbers(numbers: Mapping[TopicPartition, int]) -> str:
    topics: dict[str, dict[str, int]] = {}
    for key, number in numbers.items():
        topics.setdefault(key.topic, {})[str(key.index)] = number
    return json.dumps(topics)


def _render_where(where: Edge | Places) -> str:
    return where.name.lower() if isinstance(where, Edge) else _render_numbers(where.offsets)


def _parse_assigned(text: str) -> tuple[TopicPartition, ...]:
    """Read `{"topic": [partition, ...]}`; raises ValueError."""
    decoded = json.loads(text)
    if not isinstance(decoded, dict) or not decoded:
        raise ValueError(text)
    assigned: list[TopicPartition] = []
    for topic, indexes in decoded.items():
        if not isinstance(indexes, list) or not all(type(index) is int and index >= 0 for index in indexes):
            raise ValueError(text)
        assigned += [TopicPartition(topic, index) for index in indexes]
    if not assigned:
        raise ValueError(text)
    return tuple(sorted(set(assigned)))


EDGE_OR_PLACES: Final[Kind[Edge | Places]] = Kind(
    value_type=ValueType.STRING,
    accepted='earliest, latest, or offsets in JSON, such as {"orders":{"0":23,"1":-2,"2":-1}} (-2 earliest, -1 latest)',
    parse=parse_edge_or_places,
    render=_render_where,
)
MOMENTS: Final[Kind[Moments]] = Kind(
    value_type=ValueType.STRING,
    accepted='milliseconds since 1970 in JSON, such as {"orders":{"0":1700000000000,"1":1700000000000}}',
    parse=lambda text: Moments(_parse_numbers(text, low=0)),
    render=lambda moments: _render_numbers(moments.timestamps_ms),
)
ASSIGNED: Final[Kind[tuple[TopicPartition, ...]]] = Kind(
    value_type=ValueType.STRING,
    accepted='partitions in JSON, such as {"orders":[0,1],"payments":[2]}',
    parse=_parse_assigned,
    render=lambda assigned: json.dumps([str(key) for key in assigned]),
)

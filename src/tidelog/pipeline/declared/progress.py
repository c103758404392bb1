"""What Spark's progress of a micro-batch means for a flow: rows, lag, and how much of the work is done. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Offsets: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """One source of a micro-batch, with offsets as Spark writes them: texts, or nothing."""

    start: str | None
    end: str | None
    latest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a micro-batch brought a flow, in offsets of topics, and how far it still is from their ends."""

    read: int
    lag: int


def distance(sources: Iterable[SourceProgress]) -> Distance | None:
    """Over all sources; None where one of them does not count in offsets of topics, so that a sum would say nothing."""
    read = lag = count = 0
    for source in sources:
        start, end, latest = offsets_in(source.start), offsets_in(source.end), offsets_in(source.latest)
        if end is None:
            return None
        read += between(start or _since(source.end) or end, end)
        lag += between(end, latest or end)
        count += 1
    return Distance(read=read, lag=lag) if count else None


def offsets_in(text: str | None) -> Offsets | None:
    """Offsets by topic and partition, if a text holds such; what our source adds under names with @ is no topic."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(found, dict) or not found:
        return None
    topics = {topic: partitions for topic, partitions in found.items() if not topic.startswith("@")}
    is_ours = all(
        isinstance(partitions, dict) and all(isinstance(offset, int) for offset in partitions.values())
        for partitions in topics.values()
    )
    return topics if is_ours else None


def _since(end: str | None) -> Offsets | None:
    """Where the first micro-batch began, which only its end says (source/offsets.py)."""
    found = json.loads(end or "{}")
    return offsets_in(json.dumps(found.get("@since"))) if isinstance(found, dict) else None


def between(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between; a partition that is new begins at 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )

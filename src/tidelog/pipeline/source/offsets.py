"""Positions of a streaming query: what its checkpoint says, and what the next micro-batch may read. Pure.

Spark writes down where a micro-batch ends and nothing else. Where the first one began it asks again after a crash, and `latest` is
elsewhere by then; so the end of the first micro-batch says, under the key `@since`, where that began. All else is written as by Spark's
own source for Kafka: {"topic": {"partition": offset}}. Spark compares texts, so their order is always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from tidelog.model import Offset, TopicPartition

Positions: TypeAlias = dict[TopicPartition, Offset]
Written: TypeAlias = dict[str, dict[str, object]]

_INITIAL: Final = "@initial"  # no topic has such a name
_SINCE: Final = "@since"


def written(positions: Mapping[TopicPartition, Offset]) -> Written:
    """Positions as Spark is told them."""
    topics: Written = {}
    for key in sorted(positions):
        topics.setdefault(key.topic, {})[str(key.index)] = positions[key]
    return topics


def written_initial(positions: Mapping[TopicPartition, Offset]) -> dict[str, object]:
    """Where a query begins that has no checkpoint, as Spark is told it."""
    return {**written(positions), _INITIAL: {}}


def written_end(
    start: Mapping[str, object], positions: Mapping[TopicPartition, Offset], began: Mapping[TopicPartition, Offset]
) -> dict[str, object]:
    """Where the micro-batch ends that begins at `start`: at `start` itself, to the letter, where that is so.

    The first one is never without an end of its own, so that it is done, and its beginning known, even before there is anything to read.
    """
    if _INITIAL in start:
        return {**written(positions), _SINCE: written(began)}
    return dict(start) if positions_in(start) == positions else {**written(positions)}


def positions_in(offset: Mapping[str, object]) -> Positions:
    """The positions of an offset that Spark hands back, from its memory or from a checkpoint."""
    return {
        TopicPartition(topic, int(index)): position
        for topic, partitions in offset.items()
        if topic not in {_INITIAL, _SINCE} and isinstance(partitions, Mapping)
        for index, position in partitions.items()
    }


def start_of(start: Mapping[str, object], end: Mapping[str, object]) -> Positions:
    """Where a micro-batch that ends at `end` begins.

    That is `start`, unless this is the first micro-batch, done once more: then the query would begin elsewhere now than it did.
    """
    since = end.get(_SINCE)
    return positions_in(since if isinstance(since, Mapping) and _INITIAL in start else start)


def limited(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], offsets_max: int
) -> Positions:
    """Ends so near that at most `offsets_max` offsets lie before them: each partition gets its share of what there is to read.

    None starves: a partition with something to read gets one offset at least, also where there are more of them than offsets.
    """
    sizes = {key: max(0, offset - start[key]) for key, offset in end.items()}
    total, waiting = sum(sizes.values()), sum(1 for size in sizes.values() if size)
    if total <= offsets_max:
        return dict(end)
    spare = max(0, offsets_max - waiting)
    return {
        key: start[key] + 1 + (sizes[key] - 1) * spare // max(1, total - waiting) if sizes[key] else offset
        for key, offset in end.items()
    }


def count_between(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
    """How many offsets lie between; a partition that is new begins at its start in `end`'s eyes, offset 0."""
    return sum(max(0, offset - start.get(key, 0)) for key, offset in end.items())


def fell_back(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], keys: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Partitions whose log now ends before what was read of it."""
    return [key for key in keys if key in start and key in end and end[key] < start[key]]

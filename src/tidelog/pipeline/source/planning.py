"""Who reads what: ranges of offsets, divided and bundled into tasks. Pure, so that a replay reads in the same tasks.

A task costs tens of milliseconds whatever it reads, so many small partitions share one; a partition is divided only where an option asks
for it, since a task hands out the records of a range in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from tidelog.model import Offset, TopicId, TopicPartition
from tidelog.pipeline.source.options import TaskLimits

OFFSETS_PER_TASK: Final = 1_000_000
"""Where nothing is said about tasks, there are more of them than cores only when each would get more than this."""


class Range(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `end`."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset
    topic_id: TopicId | None = None
    """Of the topic whose offsets these are, where brokers tell: another may have its name by the time a task reads."""

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TaskRanges:
    """What one task reads, in this order."""

    ranges: tuple[Range, ...]

    @property
    def size(self) -> int:
        """How many offsets."""
        return sum(each.size for each in self.ranges)


def ranges_between(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    topic_ids: Mapping[str, TopicId] = MappingProxyType({}),
) -> list[Range]:
    """The ranges of a micro-batch that are not empty. A partition that `start` does not know is new, and begins at 0.

    One that `end` does not know is gone, and one that ends before its start was cut: whether that may be was decided with the end.
    """
    ranges = [Range(key, start.get(key, 0), end[key], topic_ids.get(key.topic)) for key in sorted(end)]
    return [each for each in ranges if each.size > 0]


def plan(ranges: Sequence[Range], limits: TaskLimits, *, core_count: int) -> list[TaskRanges]:
    """The tasks that together read all ranges, none of them empty."""
    pieces = [piece for each in ranges for piece in _cut(each, _parts_for(each.size, limits.offsets_max))]
    if limits.tasks_min is not None:
        pieces = _divided(pieces, limits.tasks_min)
    if limits.offsets_max is not None:
        return _packed(pieces, limits.offsets_max, bin_count=_task_count(pieces, limits, core_count))
    return _bundled(pieces, _task_count(pieces, limits, core_count))


def _task_count(pieces: Sequence[Range], limits: TaskLimits, core_count: int) -> int:
    if limits.tasks_max is not None:
        wanted = limits.tasks_max
    else:
        total = sum(piece.size for piece in pieces)
        wanted = max(core_count, limits.tasks_min or 1, -(-total // OFFSETS_PER_TASK))
    return min(len(pieces), wanted)


def _parts_for(size: int, offsets_max: int | None) -> int:
    return 1 if offsets_max is None else -(-size // offsets_max)


def _cut(whole: Range, part_count: int) -> list[Range]:
    """As many ranges, of sizes that differ by one at most."""
    edges = [whole.start + whole.size * part // part_count for part in range(part_count + 1)]
    return [whole._replace(start=low, end=high) for low, high in pairwise(edges) if high > low]


def _divided(pieces: Sequence[Range], count_min: int) -> list[Range]:
    """At least so many ranges, if there are so many offsets: whichever has the largest parts is cut into one more."""
    parts = [1] * len(pieces)
    largest = [(-float(piece.size), at) for at, piece in enumerate(pieces) if piece.size > 1]
    heapq.heapify(largest)
    for _ in range(count_min - len(pieces)):
        if not largest:
            break
        _, at = heapq.heappop(largest)
        parts[at] += 1
        if parts[at] < pieces[at].size:
            heapq.heappush(largest, (-pieces[at].size / parts[at], at))
    return [cut for piece, count in zip(pieces, parts, strict=True) for cut in _cut(piece, count)]


def _bundled(pieces: Sequence[Range], task_count: int) -> list[TaskRanges]:
    """Largest first, each to the task that has least."""
    loads = [(0, at) for at in range(task_count)]
    bundles: list[list[Range]] = [[] for _ in range(task_count)]
    for piece in sorted(pieces, key=lambda each: (-each.size, each)):
        load, at = heapq.heappop(loads)
        bundles[at].append(piece)
        heapq.heappush(loads, (load + piece.size, at))
    return _as_tasks(bundles)


def _packed(pieces: Sequence[Range], offsets_max: int, *, bin_count: int) -> list[TaskRanges]:
    """As `_bundled`, but a task that would get more than `offsets_max` gets a companion."""
    loads = [(0, at) for at in range(bin_count)]
    bundles: list[list[Range]] = [[] for _ in range(bin_count)]
    for piece in sorted(pieces, key=lambda each: (-each.size, each)):
        load, at = loads[0]
        if load + piece.size <= offsets_max:
            heapq.heapreplace(loads, (load + piece.size, at))
        else:
            at = len(bundles)
            bundles.append([])
            heapq.heappush(loads, (piece.size, at))
        bundles[at].append(piece)
    return _as_tasks(bundles)


def _as_tasks(bundles: Iterable[list[Range]]) -> list[TaskRanges]:
    return sorted((TaskRanges(tuple(sorted(bundle))) for bundle in bundles if bundle), key=lambda task: task.ranges)

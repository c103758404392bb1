"""Which task reads what: large segments are divided at batch boundaries, small ones are put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidelog.pipeline.segments.boundaries import Boundaries
from tidelog.pipeline.segments.directories import PartitionFiles, SegmentFile

TASK_BYTES_MAX: Final = 64 << 20
_TASK_BYTES_MIN: Final = 4 << 20
_TASKS_PER_CORE: Final = 4
_RANGES_PER_TASK_MAX: Final = 500
_OPENING_COSTS_BYTES: Final = 64 << 10  # about as long as it takes to read so much


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Bytes of a segment, from one batch boundary up to another or to the end of the file."""

    replica: str
    broker: int | None
    directory: str
    topic: str
    partition: int
    segment: SegmentFile
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


def plan(
    partitions: Sequence[PartitionFiles], *, core_count: int, task_bytes_max: int
) -> list[tuple[SegmentRange, ...]]:
    """All bytes of all segments, as tasks of about the same size: at most so large, and enough of them for all cores."""
    total = sum(segment.size for files in partitions for segment in files.segments)
    fair = max(total // (_TASKS_PER_CORE * core_count), _TASK_BYTES_MIN)
    bytes_wanted = min(fair, task_bytes_max)
    return list(_packed(_ranges(partitions, bytes_wanted), bytes_wanted))


def _ranges(partitions: Iterable[PartitionFiles], bytes_wanted: int) -> Iterator[SegmentRange]:
    for files in partitions:
        for segment in files.segments:
            cuts = [0, *_cuts(segment, bytes_wanted), segment.size]
            for start, end in pairwise(cuts):
                if end > start:
                    yield SegmentRange(
                        replica=files.directory.replica,
                        broker=files.directory.broker,
                        directory=files.directory.path,
                        topic=files.topic_partition.topic,
                        partition=files.topic_partition.index,
                        segment=segment,
                        start=start,
                        end=end,
                    )


def _cuts(segment: SegmentFile, bytes_wanted: int) -> list[int]:
    if segment.size <= bytes_wanted + bytes_wanted // 2:
        return []
    try:
        descriptor = os.open(segment.path, os.O_RDONLY)
    except OSError:
        return []  # whoever reads it says so
    try:
        return list(Boundaries(descriptor, segment.index_path, segment.size).every(bytes_wanted))
    finally:
        os.close(descriptor)


def _packed(ranges: Iterable[SegmentRange], bytes_wanted: int) -> Iterator[tuple[SegmentRange, ...]]:
    task: list[SegmentRange] = []
    size = 0
    for each in ranges:
        if task and (size + each.size > bytes_wanted or len(task) >= _RANGES_PER_TASK_MAX):
            yield tuple(task)
            task, size = [], 0
        task.append(each)
        size += each.size + _OPENING_COSTS_BYTES
    if task:
        yield tuple(task)

"""What came of an audit: findings, what could not be compared and why, and how much was looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.model import Offset, TopicPartition
from tidelog.pipeline.audit.findings import Finding
from tidelog.pipeline.audit.ranges import LogRange
from tidelog.pipeline.segments.directories import DataDirectory

_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole of it. Findings are in the order in which they are told."""

    directories: tuple[DataDirectory, ...]
    ranges: tuple[LogRange, ...]
    findings: tuple[Finding, ...]
    torn_tails: tuple[Finding, ...]
    known_open: int
    """Transactions without a marker that are known to be open."""

    @property
    def by_partition(self) -> Mapping[TopicPartition, Sequence[LogRange]]:
        """The replicas of each partition, in order."""
        members: dict[TopicPartition, list[LogRange]] = defaultdict(list)
        for each in self.ranges:
            members[each.claims.topic_partition].append(each)
        return dict(sorted(members.items()))

    @property
    def byte_count(self) -> int:
        """Bytes of all segments."""
        return sum(each.claims.size for each in self.ranges)

    @property
    def batch_count(self) -> int:
        """Batches in them."""
        return sum(each.measured.batch_count for each in self.ranges)

    @property
    def notes(self) -> list[str]:
        """What is no finding, and yet should be known before one says that replicas agree."""
        return [*_uncompared(self.by_partition), *_behind(self.ranges), *_uneven(self.by_partition), *self._leftovers()]

    def _leftovers(self) -> Iterator[str]:
        if self.torn_tails:
            yield (
                f"torn tails, above the high watermark, which the next start cuts off: {_named(map(_place, self.torn_tails))}"
            )
        if self.known_open:
            yield f"open transactions, as known: {self.known_open}"
        unfinished = [
            f"{each.claims.files.path}/{name}" for each in self.ranges for name in each.claims.files.unfinished
        ]
        if unfinished:
            yield f"left by a compaction or deletion, not looked at: {_named(unfinished)}"


def compared_range(members: Sequence[LogRange]) -> tuple[Offset, Offset] | None:
    """Where at least two replicas were held against each other: from the second lowest start to the second highest high watermark."""
    marks = sorted(
        each.claims.high_watermark for each in members if each.is_judged and each.claims.high_watermark is not None
    )
    starts = sorted(each.start for each in members if each.is_judged and each.claims.high_watermark is not None)
    return (starts[1], marks[-2]) if len(marks) > 1 else None


def _uncompared(partitions: Mapping[TopicPartition, Sequence[LogRange]]) -> Iterator[str]:
    alone = [str(partition) for partition, members in partitions.items() if len(members) == 1]
    if alone:
        yield f"compared with nothing, since only one replica was given: {_named(alone)}"
    unknown = [
        f"{each.claims.topic_partition} on {each.claims.replica}"
        for members in partitions.values()
        for each in members
        if each.claims.high_watermark is None and (each.measured.end_offset or 0) > each.start and len(members) > 1
    ]
    if unknown:
        yield f"compared with nothing, since no high watermark of theirs is known: {_named(unknown)}"


def _behind(ranges: Sequence[LogRange]) -> Iterator[str]:
    highest: dict[TopicPartition, Offset] = defaultdict(int)
    for each in ranges:
        partition = each.claims.topic_partition
        highest[partition] = max(highest[partition], each.claims.high_watermark or 0)
    behind = [
        f"{each.claims.topic_partition} on {each.claims.replica} (below {mark} of {highest[each.claims.topic_partition]})"
        for each in ranges
        if (mark := each.claims.high_watermark) is not None and mark < highest[each.claims.topic_partition]
    ]
    if behind:
        yield f"behind others, and compared only below the high watermark that they know: {_named(behind)}"


def _uneven(partitions: Mapping[TopicPartition, Sequence[LogRange]]) -> Iterator[str]:
    most: dict[str, int] = defaultdict(int)
    for partition, members in partitions.items():
        most[partition.topic] = max(most[partition.topic], len(members))
    fewer = [str(partition) for partition, members in partitions.items() if len(members) < most[partition.topic]]
    if fewer:
        yield f"fewer replicas than other partitions of the topic (--replicas N makes this a finding): {_named(fewer)}"


def _place(finding: Finding) -> str:
    return f"{finding.file} at {finding.position}"


def _named(names: Iterable[str]) -> str:
    """The first few, and how many more."""
    listed = list(names)
    more = f" and {len(listed) - _NAMED_MAX} more" if len(listed) > _NAMED_MAX else ""
    return ", ".join(listed[:_NAMED_MAX]) + more

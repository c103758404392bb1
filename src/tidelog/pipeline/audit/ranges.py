"""What must be equal: from the claims of all replicas of a partition, and how far their logs reach, the stretch each must share with others.

Two replicas agree below the smaller of their high watermarks, as each checkpointed its own: what was committed then stays committed. They
agree from the larger of their log starts on: retention works on each by itself. Above its own high watermark a replica may hold what the
others never had; it cuts that off when it follows again.

Of a compacted partition each replica has compacted its own copy, when it saw fit. Below the newest of their active segments a batch may have
lost records, or be gone; what is left of it in two replicas still has the same offsets, epochs and producer. From there on bytes are equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.model import Offset, TopicPartition
from tidelog.pipeline.audit.claims import LogClaims
from tidelog.pipeline.audit.findings import Check, Finding

LogKey: TypeAlias = tuple[str, TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the segments of one replica of one partition add up to."""

    batch_count: int = 0
    record_count: int = 0
    end_offset: Offset | None = None  # of sound batches
    last_epoch: int = -1
    is_cleaned: bool = False  # a batch has lost records
    vanished_up_to: Offset | None = None  # base offset of the last segment that was deleted before it could be read
    has_transactions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """One replica of one partition: what of it counts."""

    claims: LogClaims
    measured: Measured
    bit: int  # its number among the replicas of the partition
    start: Offset
    is_judged: bool  # unless it is another topic of the same name
    is_reference: bool  # the one that would be elected: the last epoch, then the longest log
    is_compacted: bool
    strict_from: Offset  # from here on bytes are equal

    @property
    def end_offset(self) -> Offset:
        """Where the log ends, as far as it is sound."""
        ends = (self.measured.end_offset, self.claims.last_segment, self.start)
        return max(end for end in ends if end is not None)


def ranges_of(logs: Sequence[LogClaims], measured: Mapping[LogKey, Measured]) -> list[LogRange]:
    """The ranges of all logs, partition by partition."""
    partitions: dict[TopicPartition, list[LogClaims]] = defaultdict(list)
    for log in logs:
        partitions[log.topic_partition].append(log)
    return [each for members in partitions.values() for each in _ranges(members, measured)]


def findings_of(ranges: Sequence[LogRange], *, replica_count: int | None, is_live: bool) -> list[Finding]:
    """What is wrong with whole logs: too short, too few, or another topic's."""
    found: list[Finding] = []
    for each in ranges:
        if not each.is_judged:
            found.append(_finding(each, Check.TOPIC_ID, f"another topic of this name: id {each.claims.topic_id}"))
        elif not is_live:
            found += _too_short(each)
    if replica_count is not None:
        found += _too_few(ranges, replica_count)
    return found


def _ranges(members: Sequence[LogClaims], measured: Mapping[LogKey, Measured]) -> list[LogRange]:
    sums = [measured.get((log.replica, log.topic_partition), Measured()) for log in members]
    judged = _judged(members)
    is_compacted = any(log.is_compacted or sum_.is_cleaned for log, sum_ in zip(members, sums, strict=True))
    strict_from = max(log.last_segment for log in members) if is_compacted else 0
    reach = [(sum_.last_epoch, sum_.end_offset or 0, -number) for number, sum_ in enumerate(sums)]
    candidates = [number for number in range(len(members)) if members[number] in judged]
    reference = max(candidates, key=lambda number: reach[number])
    return [
        LogRange(
            claims=log,
            measured=sums[number],
            bit=number,
            start=_start(log, sums[number]),
            is_judged=number in candidates,
            is_reference=number == reference,
            is_compacted=is_compacted,
            strict_from=strict_from,
        )
        for number, log in enumerate(members)
    ]


def _judged(members: Sequence[LogClaims]) -> Sequence[LogClaims]:
    """The replicas of one topic id: of the one that most have. A replica that has none is taken at its name's word."""
    counted = Counter(log.topic_id for log in members if log.topic_id is not None)
    if len(counted) < 2:
        return members
    usual = min(counted, key=lambda topic_id: (-counted[topic_id], str(topic_id)))
    return [log for log in members if log.topic_id in (None, usual)]


def _start(log: LogClaims, measured: Measured) -> Offset:
    """Where the log starts; after what was deleted while we read."""
    if measured.vanished_up_to is None:
        return log.log_start_offset
    later = [each.base_offset for each in log.files.segments if each.base_offset > measured.vanished_up_to]
    return max([log.log_start_offset, *later[:1]])


def _too_short(each: LogRange) -> Iterable[Finding]:
    promised = each.claims.high_watermark
    if promised is not None and each.end_offset < promised:
        what = f"the log ends at offset {each.end_offset}, below its own high watermark {promised}"
        last = each.claims.files.segments[-1].path if each.claims.files.segments else each.claims.files.path
        yield _finding(each, Check.HIGH_WATERMARK, what, offset=each.end_offset, file=last)


def _too_few(ranges: Sequence[LogRange], replica_count: int) -> Iterable[Finding]:
    members: dict[TopicPartition, list[LogRange]] = defaultdict(list)
    for each in ranges:
        if each.is_judged:
            members[each.claims.topic_partition].append(each)
    for partition, found in members.items():
        if len(found) < replica_count:
            replicas = tuple(each.claims.replica for each in found)
            yield Finding(
                check=Check.MISSING_REPLICA,
                what=f"{len(found)} of {replica_count} replicas: there is one on broker {', '.join(replicas)} only",
                replicas=replicas,
                topic=partition.topic,
                partition=partition.index,
            )


def _finding(
    each: LogRange, check: Check, what: str, *, offset: Offset | None = None, file: str | None = None
) -> Finding:
    partition = each.claims.topic_partition
    return Finding(
        check=check,
        what=what,
        replicas=(each.claims.replica,),
        topic=partition.topic,
        partition=partition.index,
        offset=offset,
        file=file or each.claims.files.path,
    )

"""Which log to compact next, and how far: Kafka's rules, as a pure function of what the logs say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.model import Offset, ProducerEpoch, ProducerId, TimestampMs, TopicPartition
from tidelog.storage.transaction_index import AbortedEntry


class SegmentFacts(NamedTuple):
    """What planning needs to know of a segment."""

    base_offset: Offset
    size: int
    largest_timestamp_ms: TimestampMs
    first_timestamp_ms: TimestampMs
    """Time of the first batch; -1 if it has none."""


class ActiveProducer(NamedTuple):
    """A producer whose sequence must outlive the compaction of its records."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_offset: Offset
    """Last offset of its newest data batch in this epoch; -1 if only a marker speaks of the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """A compacted log at the moment of planning."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    segments: tuple[SegmentFacts, ...]
    """All segments in order; the last one is active and never compacted."""
    log_start_offset: Offset
    last_stable_offset: Offset
    aborted: tuple[AbortedEntry, ...] = ()
    """All aborted transactions of the log, also those whose marker is in the active segment."""
    producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """How much a log would gain from compaction."""

    facts: LogFacts
    first_dirty_offset: Offset
    end_offset: Offset
    """Nothing at or after this offset may be judged yet."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether max.compaction.lag.ms has passed for the oldest record not compacted yet."""

    @property
    def dirty_ratio(self) -> float:
        """The part of the log, by bytes, that was not compacted yet."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether to compact at all."""
        if self.dirty_bytes == 0:
            return False
        return self.is_overdue or self.dirty_ratio > self.facts.config.min_cleanable_dirty_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Everything a child process needs to rewrite a log; it can be pickled."""

    directory: str
    segments: tuple[Offset, ...]
    """Base offsets of the segments that may be rewritten, in order."""
    first_dirty_offset: Offset
    end_offset: Offset
    aborted: tuple[AbortedEntry, ...]
    producers: tuple[ActiveProducer, ...]
    now_ms: TimestampMs
    keys_max: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int


def assess(facts: LogFacts, *, checkpoint: Offset | None, now_ms: TimestampMs) -> Assessment | None:
    """Judge one log. `checkpoint` is its first dirty offset as last remembered; None is returned where nothing may be compacted."""
    sealed = facts.segments[:-1]
    if not facts.config.is_compacted or not sealed:
        return None
    active_base = facts.segments[-1].base_offset
    first_dirty = facts.log_start_offset
    if checkpoint is not None and facts.log_start_offset <= checkpoint <= active_base:
        first_dirty = checkpoint
    dirty = [segment for segment, end in _with_ends(facts.segments) if end > first_dirty]
    end_offset = min(active_base, facts.last_stable_offset, _too_young(facts, dirty, now_ms))
    if end_offset <= first_dirty:
        return None
    dirty = [segment for segment in dirty if segment.base_offset < end_offset]
    return Assessment(
        facts=facts,
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=sum(segment.size for segment in sealed if segment.base_offset < dirty[0].base_offset),
        dirty_bytes=sum(segment.size for segment in dirty),
        is_overdue=_is_overdue(facts.config, dirty, now_ms),
    )


def choose(assessments: Iterable[Assessment]) -> Assessment | None:
    """The log to compact next: the dirtiest of those that are due."""
    due = [assessment for assessment in assessments if assessment.is_due]
    return max(due, key=lambda assessment: (assessment.dirty_ratio, assessment.dirty_bytes), default=None)


def plan_compaction(assessment: Assessment, *, keys_max: int, now_ms: TimestampMs) -> CompactionPlan:
    """The work order for `compaction.clean`."""
    facts, config = assessment.facts, assessment.facts.config
    return CompactionPlan(
        directory=facts.directory,
        segments=tuple(
            segment.base_offset for segment in facts.segments[:-1] if segment.base_offset < assessment.end_offset
        ),
        first_dirty_offset=assessment.first_dirty_offset,
        end_offset=assessment.end_offset,
        aborted=facts.aborted,
        producers=facts.producers,
        now_ms=now_ms,
        keys_max=keys_max,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
    )


def _with_ends(segments: Sequence[SegmentFacts]) -> list[tuple[SegmentFacts, Offset]]:
    """The sealed segments, each with the base offset of the next."""
    return [(segment, following.base_offset) for segment, following in pairwise(segments)]


def _too_young(facts: LogFacts, dirty: Sequence[SegmentFacts], now_ms: TimestampMs) -> Offset:
    """Base of the first segment with a record younger than min.compaction.lag.ms."""
    lag_ms = facts.config.min_compaction_lag_ms
    active_base = facts.segments[-1].base_offset
    if lag_ms <= 0:
        return active_base
    young = (segment.base_offset for segment in dirty if segment.largest_timestamp_ms > now_ms - lag_ms)
    return next(young, active_base)


def _is_overdue(config: LogConfig, dirty: Sequence[SegmentFacts], now_ms: TimestampMs) -> bool:
    if config.max_compaction_lag_ms is None:
        return False
    times = (segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms >= 0)
    oldest = min(times, default=None)
    return oldest is not None and now_ms - oldest > config.max_compaction_lag_ms

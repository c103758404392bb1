"""How long segments live: which may go (always whole ones, the oldest first), and when the active one ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crc32c import crc32c

from tidelog.config import LogConfig
from tidelog.model import Offset, TimestampMs, TopicPartition
from tidelog.storage.segment import Segment


def count_deletable(
    segments: Sequence[Segment],
    *,
    config: LogConfig,
    now_ms: TimestampMs,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
) -> int:
    """How many segments may go, counted from the oldest; never one that reaches beyond the high watermark, nor an empty last one."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    candidates = 0
    for segment, end in zip(segments, ends, strict=True):
        if end > high_watermark or (segment is segments[-1] and segment.size == 0):
            break
        candidates += 1
    count = _before_log_start(ends, candidates, log_start_offset)
    if config.is_deleted:
        count = max(count, _too_large(segments, candidates, config.retention_bytes))
        count = max(count, _too_old(segments, candidates, config.retention_ms, now_ms))
    return count


def _before_log_start(ends: Sequence[Offset], candidates: int, log_start_offset: Offset) -> int:
    # The last segment stays: it is where the log goes on.
    return _leading(min(candidates, len(ends) - 1), lambda number: ends[number] <= log_start_offset)


def _too_large(segments: Sequence[Segment], candidates: int, retention_bytes: int | None) -> int:
    if retention_bytes is None:
        return 0
    surplus = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    while count < candidates and surplus >= segments[count].size:
        surplus -= segments[count].size
        count += 1
    return count


def _too_old(segments: Sequence[Segment], candidates: int, retention_ms: int | None, now_ms: TimestampMs) -> int:
    if retention_ms is None:
        return 0
    return _leading(candidates, lambda number: now_ms - _age_stamp(segments[number]) > retention_ms)


def _age_stamp(segment: Segment) -> TimestampMs:
    stamp = segment.largest_timestamp_ms
    return stamp if stamp >= 0 else segment.files.mtime_ms()


def _leading(count: int, holds: Callable[[int], bool]) -> int:
    number = 0
    while number < count and holds(number):
        number += 1
    return number


def roll_after_ms(config: LogConfig, topic_partition: TopicPartition) -> int:
    """How long a segment stays active: segment.ms less a jitter, the same at every start, so that partitions do not all roll at once."""
    longest = config.segment_ms
    if config.is_compacted and config.max_compaction_lag_ms is not None:
        longest = min(longest, config.max_compaction_lag_ms)
    jitter_max = min(config.segment_jitter_ms, longest)
    return longest - crc32c(str(topic_partition).encode()) % (jitter_max + 1)

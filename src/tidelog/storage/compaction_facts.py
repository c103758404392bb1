"""What a log says of itself to whoever plans its compaction."""

from __future__ import annotations

from tidelog.model import Offset
from tidelog.storage.compaction_plan import ActiveProducer, LogFacts, SegmentFacts
from tidelog.storage.log import PartitionLog


def compaction_facts(log: PartitionLog, *, last_stable_offset: Offset) -> LogFacts:
    """The log as of now; only whole segments that are durable count as stable, since a swap must not outlive what it replaces."""
    durable = max(
        (segment.base_offset for segment in log.segments if segment.base_offset <= log.recovery_point), default=0
    )
    return LogFacts(
        topic_partition=log.topic_partition,
        directory=log.directory,
        config=log.config,
        segments=tuple(
            SegmentFacts(segment.base_offset, segment.size, segment.largest_timestamp_ms, segment.first_timestamp_ms())
            for segment in log.segments
        ),
        log_start_offset=log.log_start_offset,
        last_stable_offset=min(last_stable_offset, durable),
        aborted=tuple(entry for segment in log.segments for entry in segment.transaction_index.entries),
        producers=tuple(
            ActiveProducer(state.producer_id, state.producer_epoch, state.last_offset) for state in log.producers
        ),
    )


def can_replace(log: PartitionLog, replaced: tuple[Offset, ...]) -> bool:
    """Whether segments planned for earlier are all still there; truncation or retention may have been quicker."""
    sealed = {segment.base_offset for segment in log.segments[:-1]}
    return bool(replaced) and sealed.issuperset(replaced)

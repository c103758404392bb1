"""Hand-made views of replicas, for checkers that must be able to speak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from uuid import UUID

from tidelog.controller import PartitionState
from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.simulation.observer import ReplicaView, SeenLog, Snapshot, StoredBatch

P0 = TopicPartition("safe", 0)
TOPIC_ID = UUID(int=7)
_log_numbers = count(1)


def batch(base: Offset, last: Offset | None = None, *, epoch: int = 0, crc: int = 0) -> StoredBatch:
    """A batch of a producer without an id."""
    return StoredBatch(base, base if last is None else last, epoch, crc)


def numbered(
    base: Offset, sequence: int, *, producer_id: int = 1, producer_epoch: int = 0, size: int = 1
) -> StoredBatch:
    """A batch of an idempotent producer."""
    return StoredBatch(base, base + size - 1, 0, 0, producer_id, producer_epoch, sequence)


def seen(batches: Iterable[StoredBatch]) -> SeenLog:
    """A log nobody has looked at."""
    return SeenLog(next(_log_numbers), batches)


def view(  # every argument is one thing a checker may look at
    batches: Sequence[StoredBatch] = (),
    *,
    log: SeenLog | None = None,
    broker_id: BrokerId = 1,
    life: int = 1,
    topic_id: UUID = TOPIC_ID,
    is_leader: bool = False,
    leader_epoch: int = 0,
    start: Offset | None = None,
    end: Offset | None = None,
    rewritable_below: Offset = 0,
) -> ReplicaView:
    """A replica that holds these batches, all of them committed."""
    log = seen(batches) if log is None else log
    first = log.batches[0].base_offset if log.batches else 0
    after = log.batches[-1].last_offset + 1 if log.batches else 0
    log_end_offset = after if end is None else end
    return ReplicaView(
        broker_id=broker_id,
        life=life,
        topic_partition=P0,
        topic_id=topic_id,
        is_leader=is_leader,
        leader_epoch=leader_epoch,
        log_start_offset=first if start is None else start,
        log_end_offset=log_end_offset,
        high_watermark=log_end_offset,
        last_stable_offset=log_end_offset,
        epochs=(),
        rewritable_below=rewritable_below,
        log=log,
        batch_count=len(log.batches),
    )


def snapshot(*views: ReplicaView, assignment: tuple[BrokerId, ...] = (1, 2), now_ms: float = 0.0) -> Snapshot:
    """One partition on these brokers."""
    state = PartitionState(
        topic_id=TOPIC_ID, assignment=assignment, leader=1, leader_epoch=0, isr=assignment, partition_epoch=0
    )
    return Snapshot(now_ms=now_ms, replicas={P0: views} if views else {}, states={P0: state})

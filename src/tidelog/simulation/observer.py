"""Looking at every replica of a simulated cluster from outside, at one instant, without disturbing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.controller import PartitionState
from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records.batch import headers
from tidelog.storage import PartitionLog

_READ_BYTES = 1 << 20


class StoredBatch(NamedTuple):
    """What tells one batch from any other that could lie in its place."""

    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica as it is now; `life` differs between two processes of one broker."""

    broker_id: BrokerId
    life: int
    topic_partition: TopicPartition
    is_leader: bool
    leader_epoch: LeaderEpoch
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]  # which leader epoch began where
    batches: tuple[StoredBatch, ...]

    def below(self, offset: Offset) -> tuple[StoredBatch, ...]:
        """The batches that lie wholly below an offset."""
        return tuple(batch for batch in self.batches if batch.last_offset < offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The replicas that run, and what the registry says of each partition."""

    now_ms: float
    replicas: Mapping[TopicPartition, tuple[ReplicaView, ...]]
    states: Mapping[TopicPartition, PartitionState]

    def leaders(self) -> Iterator[ReplicaView]:
        """Every replica that believes to lead."""
        for views in self.replicas.values():
            yield from (view for view in views if view.is_leader)


class _Known(NamedTuple):
    """How much of a log was read already; a log that was cut since is read again."""

    cut_count: int
    log_end_offset: Offset
    batches: tuple[StoredBatch, ...]


class Observer:
    """Reads logs once and remembers them, so that looking often is cheap."""

    def __init__(self) -> None:
        self._known: dict[tuple[BrokerId, int, TopicPartition, int], _Known] = {}

    def view(self, broker_id: BrokerId, life: int, partition: Partition) -> ReplicaView:
        """One replica now."""
        log = partition.log
        return ReplicaView(
            broker_id=broker_id,
            life=life,
            topic_partition=partition.topic_partition,
            is_leader=partition.is_leader,
            leader_epoch=partition.leader_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            epochs=tuple((entry.leader_epoch, entry.start_offset) for entry in log.epochs),
            batches=self._batches((broker_id, life, partition.topic_partition, id(log)), log),
        )

    def _batches(self, key: tuple[BrokerId, int, TopicPartition, int], log: PartitionLog) -> tuple[StoredBatch, ...]:
        known = self._known.get(key)
        if known is None or known.cut_count != log.cut_count or known.log_end_offset > log.log_end_offset:
            known = _Known(log.cut_count, log.log_start_offset, ())
        if known.log_end_offset < log.log_end_offset:
            known = _Known(log.cut_count, log.log_end_offset, known.batches + _read(log, known.log_end_offset))
        self._known[key] = known
        return tuple(batch for batch in known.batches if batch.last_offset >= log.log_start_offset)


def _read(log: PartitionLog, offset: Offset) -> tuple[StoredBatch, ...]:
    found: list[StoredBatch] = []
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=_READ_BYTES, end_offset=log.log_end_offset)
        batches = [StoredBatch(one.base_offset, one.last_offset, one.leader_epoch, one.crc) for _, one in headers(data)]
        found += [batch for batch in batches if batch.last_offset >= offset]
        offset = batches[-1].last_offset + 1
    return tuple(found)


def by_partition(views: Iterable[ReplicaView]) -> dict[TopicPartition, tuple[ReplicaView, ...]]:
    """The views of each partition, in the order of the brokers."""
    found: dict[TopicPartition, tuple[ReplicaView, ...]] = {}
    for view in views:
        found[view.topic_partition] = (*found.get(view.topic_partition, ()), view)
    return found

"""I13: recovery is idempotent, invents nothing and keeps no half of a batch, tried on copies of the disks as a crash now would leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.config import BrokerConfig, LogConfig
from tidelog.model import LeaderEpoch, Offset, TopicPartition
from tidelog.simulation.checkers.reading import Unreadable, batches_of
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_image import Loss
from tidelog.simulation.observer import ReplicaView
from tidelog.storage import LogDirectory, PartitionLog
from tidelog.storage.checkpoints import decode_meta_properties
from tidelog.storage.names import LOG, META_PROPERTIES

if TYPE_CHECKING:
    from tidelog.simulation.cluster import SimulatedBroker
    from tidelog.simulation.observer import Snapshot

NAME: Final = "I13 recovery repeats and invents nothing"


class _Batch(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    crc: int


class _Recovered(NamedTuple):
    """A log as recovery left it."""

    log_end_offset: Offset
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]
    batches: tuple[_Batch, ...]
    damage: str  # what could not be read; empty where all could
    is_rotten: bool  # a fault has turned a bit of it, which explains the damage


def recovery_violations(broker: SimulatedBroker, snapshot: Snapshot, log_dir: str) -> Iterator[str]:
    """What recovery of this running broker's logs would do wrong after a kill, or after a power cut of any kind."""
    living = {
        view.topic_partition: view
        for views in snapshot.replicas.values()
        for view in views
        if view.broker_id == broker.broker_id
    }
    for how in ("a kill", "a power cut"):
        disk = broker.node.disk.copy()
        if how == "a kill":
            disk.crash(lose=Loss.NOTHING)
        else:
            disk.cut_power()
        for sentence in _wrong(disk, living, log_dir):
            yield f"broker {broker.broker_id} after {how}: {sentence}"


def _wrong(disk: SimulatedDisk, living: Mapping[TopicPartition, ReplicaView], log_dir: str) -> Iterator[str]:
    first = _recover(disk, log_dir)
    disk.crash(lose=Loss.NOTHING)
    second = _recover(disk, log_dir)
    for topic_partition in (*first, *(each for each in second if each not in first)):
        log, again = first.get(topic_partition), second.get(topic_partition)
        if log is None or log != again:
            yield (f"{topic_partition} {_told(log)}, and is different when recovered once more: {_told(again)}")
    for topic_partition, log in first.items():
        view = living.get(topic_partition)
        if log.damage and not log.is_rotten:
            yield f"{topic_partition} cannot be read: {log.damage}"
        if view is not None and not view.log.is_rotten:
            yield from _invented(log, view)
    for topic_partition, view in living.items():
        if topic_partition not in first and view.batch_count:
            yield f"{topic_partition} is not there, of which the broker has a log that ends at {view.log_end_offset}"


def _told(log: _Recovered | None) -> str:
    return "is not there" if log is None else f"ends at {log.log_end_offset}"


def _invented(log: _Recovered, view: ReplicaView) -> Iterator[str]:
    known = {_Batch(each.base_offset, each.last_offset, each.leader_epoch, each.crc) for each in view.batches}
    first = max(view.log_start_offset, view.rewritable_below)
    for batch in log.batches:
        if batch.last_offset >= first and batch not in known:
            yield f"{view.topic_partition} has a batch at {batch.base_offset} that was never there"


def _recover(disk: SimulatedDisk, log_dir: str) -> dict[TopicPartition, _Recovered]:
    """Open every log as a starting broker does, and let go of them without a word."""
    meta = decode_meta_properties(disk.read(f"{log_dir}/{META_PROPERTIES}"))
    config = BrokerConfig.from_properties({"node.id": str(meta.broker_id), "log.dirs": log_dir})
    defaults = LogConfig.from_properties({}, config)
    directory = LogDirectory.open(disk, log_dir, broker_id=config.broker_id, cluster_id=meta.cluster_id or "")
    found: dict[TopicPartition, _Recovered] = {}
    for each in directory.found():
        log = directory.open_log(each.topic_partition, defaults, now_ms=0, topic_id=each.topic_id)
        batches, damage = _batches(log)
        files = [disk.peek(segment.path(LOG)) for segment in log.segments]
        found[each.topic_partition] = _Recovered(
            log_end_offset=log.log_end_offset,
            epochs=tuple((entry.leader_epoch, entry.start_offset) for entry in log.epochs),
            batches=batches,
            damage=damage,
            is_rotten=any(file is not None and file.is_rotten for file in files),
        )
    directory.release()
    return found


def _batches(log: PartitionLog) -> tuple[tuple[_Batch, ...], str]:
    """What can be read, and why no more of it."""
    found: list[_Batch] = []
    try:
        for header, _ in batches_of(log):
            found.append(_Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    except Unreadable as why:
        return tuple(found), str(why)
    return tuple(found), ""

"""I13: what a broker finds on its disk when it starts again was there when it died.

A batch in the first view of a new life was in the last view of the former one; or was written since that look, at its end and under an
epoch not older than the one the replica knew; or has been fetched already from a replica that has it. So no batch comes back that was cut
away, no log of a deleted topic, no half of a write. That nothing is lost is not claimed here: a power cut may take what was not flushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tidelog.model import BrokerId, TopicPartition
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot, StoredBatch

_Lasts: TypeAlias = dict[BrokerId, ReplicaView]


class RecoveryInventsNothing:
    """Remembers the last view of every replica, also of brokers that are down."""

    name = "I13 recovery invents nothing"

    def __init__(self) -> None:
        self._last: dict[TopicPartition, _Lasts] = {}
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Batches that came from nowhere."""
        for topic_partition in self._changes.since_last(snapshot):
            views = snapshot.replicas.get(topic_partition, ())
            lasts = self._last.setdefault(topic_partition, {})
            reborn = [(lasts[view.broker_id], view) for view in views if _is_reborn(lasts, view)]
            lasts.update((view.broker_id, view) for view in views)
            for former, view in reborn:
                yield from _inventions(former, view, lasts)


def _is_reborn(lasts: _Lasts, view: ReplicaView) -> bool:
    former = lasts.get(view.broker_id)
    return former is not None and former.life != view.life


def _inventions(former: ReplicaView, view: ReplicaView, lasts: _Lasts) -> Iterator[str]:
    if former.log.is_rotten or view.log.is_rotten or view.rewritable_below:
        return
    known = set(former.batches) if former.topic_id == view.topic_id else set[StoredBatch]()
    for batch in view.batches:
        if batch.last_offset < former.log_start_offset:
            continue  # Deleted, and the checkpoint of the new log start was not written yet.
        if batch not in known and not _is_new(batch, former, view) and not _is_elsewhere(batch, view, lasts):
            yield (
                f"{view.topic_partition}: broker {view.broker_id} died with a log of epoch {former.leader_epoch} that ended at "
                f"{former.log_end_offset}, and came back with {batch}"
            )
            return


def _is_new(batch: StoredBatch, former: ReplicaView, view: ReplicaView) -> bool:
    if former.topic_id != view.topic_id:
        return view.is_leader and batch.leader_epoch == view.leader_epoch
    if batch.base_offset >= former.log_end_offset and batch.leader_epoch >= former.leader_epoch:
        return True
    # On a disk that was replaced by an empty one: written since, by an unclean leader that begins anew.
    return view.is_leader and batch.leader_epoch == view.leader_epoch > former.leader_epoch


def _is_elsewhere(batch: StoredBatch, view: ReplicaView, lasts: _Lasts) -> bool:
    return any(
        batch in other.batches
        for other in lasts.values()
        if other.broker_id != view.broker_id and other.topic_id == view.topic_id
    )

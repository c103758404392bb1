"""I2: within a reign the high watermark never goes back, and what was below a leader's high watermark never changes.

Nor does it go: whoever leads under a later epoch has a log that reaches at least as far as what was committed before.

Under unclean elections (`may_lose`) a topic gives up the second half, and with it what was committed; the first half holds all the same,
because a leader never cuts its own log. Compaction may take records out of a committed batch, or the whole of it; what it leaves keeps
its header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot, StoredBatch

_Topic: TypeAlias = tuple[TopicPartition, TopicId]


class CommittedNeverChanges:
    """Remembers every batch that a leader has shown as committed, of a topic of this very id."""

    name = "I2 what is committed never changes"

    def __init__(self, may_lose: Callable[[str], bool] = lambda _: False) -> None:
        self._may_lose = may_lose
        self._changes = Changes()
        self._watermarks: dict[tuple[_Topic, BrokerId, int, LeaderEpoch], Offset] = {}
        self._committed: dict[_Topic, dict[Offset, StoredBatch]] = {}
        self._ends: dict[_Topic, tuple[LeaderEpoch, Offset]] = {}
        self._compared: dict[int, int] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """A high watermark that went back, or a committed batch that is another one now, or gone."""
        for topic_partition in self._changes.since_last(snapshot):
            for view in snapshot.replicas.get(topic_partition, ()):
                if view.is_leader and view.topic_id is not None:
                    yield from self._look_at(view, (topic_partition, view.topic_id))

    def _look_at(self, view: ReplicaView, topic: _Topic) -> Iterator[str]:
        key = (topic, view.broker_id, view.life, view.leader_epoch)
        before = self._watermarks.get(key, view.high_watermark)
        if view.high_watermark < before:
            yield f"{topic[0]}: the high watermark of {_who(view)} went from {before} to {view.high_watermark}"
        self._watermarks[key] = view.high_watermark
        if not self._may_lose(view.topic_partition.topic):
            yield from self._compare_end(view, topic)
            if not view.log.is_rotten:
                yield from self._compare(view, self._committed.setdefault(topic, {}))

    def _compare_end(self, view: ReplicaView, topic: _Topic) -> Iterator[str]:
        epoch, end_offset = self._ends.get(topic, (view.leader_epoch, view.high_watermark))
        if view.leader_epoch >= epoch and view.log_end_offset < end_offset:
            yield f"{topic[0]}: committed up to {end_offset} in epoch {epoch}, {_who(view)} ends at {view.log_end_offset}"
        if view.high_watermark >= end_offset:
            self._ends[topic] = (max(view.leader_epoch, epoch), view.high_watermark)

    def _compare(self, view: ReplicaView, committed: dict[Offset, StoredBatch]) -> Iterator[str]:
        batches = view.log.batches
        index = self._compared.get(view.log.number, 0)
        while index < view.batch_count and batches[index].last_offset < view.high_watermark:
            batch = batches[index]
            known = committed.setdefault(batch.base_offset, batch)
            is_compacted = batch.last_offset < view.rewritable_below
            if known != batch and not (is_compacted and known.is_rewritten(batch)):
                yield f"{view.topic_partition}: {known} was committed, {_who(view)} shows {batch}"
                return
            index += 1
        self._compared[view.log.number] = index


def _who(view: ReplicaView) -> str:
    return f"broker {view.broker_id} in epoch {view.leader_epoch}"

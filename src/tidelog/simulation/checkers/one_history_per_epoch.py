"""Log matching, a part of I11: (leader epoch, base offset) names one batch of a partition for ever, and the batch before it.

It holds on every replica, in every life, committed or not: only the leader of an epoch makes batches of it, each at its log end, and never
cuts its own log; followers hold copies of a beginning of that log. So a zombie that adds to a log, a follower that was cut too late or
too early and a batch that was lost in the middle all show here. Unclean elections change nothing about it: they lose batches, but what
comes in their place is of another epoch. Nor do power cuts: a leader that has forgotten its last batches may lead again in a new epoch only.

What differs rightly: a topic made again has another id; a log begins anywhere, so its first batch has none before it; compaction takes
records and whole batches away below the active segment, but leaves the headers of the others as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot, StoredBatch

_Name: TypeAlias = tuple[LeaderEpoch, Offset]


class _Sighting(NamedTuple):
    """Where a batch was seen first, and which one lay before it, if that could be told."""

    batch: StoredBatch
    before: _Name | None
    broker_id: BrokerId


class OneHistoryPerEpoch:
    """Remembers every batch that was ever seen."""

    name = "I11 an epoch has one history"

    def __init__(self) -> None:
        self._changes = Changes()
        self._seen: dict[tuple[TopicPartition, TopicId], dict[_Name, _Sighting]] = {}
        self._looked_at: dict[int, int] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Two batches of one name, or two histories before one batch."""
        for topic_partition in self._changes.since_last(snapshot):
            for view in snapshot.replicas.get(topic_partition, ()):
                if view.topic_id is not None and not view.log.is_rotten:
                    yield from self._look_at(view, self._seen.setdefault((topic_partition, view.topic_id), {}))

    def _look_at(self, view: ReplicaView, seen: dict[_Name, _Sighting]) -> Iterator[str]:
        first = self._looked_at.get(view.log.number, 0)
        for index in range(first, view.batch_count):
            batch = view.log.batches[index]
            before = view.log.batches[index - 1] if index > 0 else None
            if before is not None and before.last_offset < view.rewritable_below:
                before = None  # Others may have lain between the two.
            name_before = None if before is None else (before.leader_epoch, before.base_offset)
            yield from _compare(view, _Sighting(batch, name_before, view.broker_id), seen)
        self._looked_at[view.log.number] = view.batch_count


def _compare(view: ReplicaView, sighting: _Sighting, seen: dict[_Name, _Sighting]) -> Iterator[str]:
    batch = sighting.batch
    name = (batch.leader_epoch, batch.base_offset)
    known = seen.setdefault(name, sighting)
    is_compacted = batch.last_offset < view.rewritable_below
    if known.batch != batch and not (is_compacted and known.batch.is_rewritten(batch)):
        yield (
            f"{view.topic_partition}: (epoch, offset) {name} was {known.batch} on broker {known.broker_id}, "
            f"is {batch} on broker {view.broker_id}"
        )
    elif known.before is None:
        seen[name] = known._replace(before=sighting.before)
    elif sighting.before is not None and sighting.before != known.before:
        yield (
            f"{view.topic_partition}: before (epoch, offset) {name} there was {known.before} on broker {known.broker_id}, "
            f"there is {sighting.before} on broker {view.broker_id}"
        )

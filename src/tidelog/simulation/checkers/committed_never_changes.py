"""I2: within a reign the high watermark never goes back, and what was below a leader's high watermark never changes."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.simulation.observer import ReplicaView, Snapshot, StoredBatch


class CommittedNeverChanges:
    """Remembers every batch that a leader has shown as committed."""

    name = "I2 what is committed never changes"

    def __init__(self) -> None:
        self._watermarks: dict[tuple[TopicPartition, BrokerId, int, LeaderEpoch], Offset] = {}
        self._committed: dict[tuple[TopicPartition, TopicId], dict[Offset, StoredBatch]] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """A high watermark that went back, or a committed batch that is another one now."""
        for view in snapshot.leaders():
            state = snapshot.states.get(view.topic_partition)
            if state is None:
                continue
            key = (view.topic_partition, view.broker_id, view.life, view.leader_epoch)
            before = self._watermarks.get(key, view.high_watermark)
            if view.high_watermark < before:
                yield f"{view.topic_partition}: the high watermark of {_who(view)} went from {before} to {view.high_watermark}"
            self._watermarks[key] = view.high_watermark
            yield from self._compare(view, self._committed.setdefault((view.topic_partition, state.topic_id), {}))

    def _compare(self, view: ReplicaView, committed: dict[Offset, StoredBatch]) -> Iterator[str]:
        for batch in view.below(view.high_watermark):
            known = committed.setdefault(batch.base_offset, batch)
            if known != batch:
                yield f"{view.topic_partition}: {known} was committed, {_who(view)} shows {batch}"
                return


def _who(view: ReplicaView) -> str:
    return f"broker {view.broker_id} in epoch {view.leader_epoch}"

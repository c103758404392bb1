"""I6: a leader epoch of a partition has one leader, and epochs never go back in the registry."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.controller import PartitionState
from tidelog.model import BrokerId, LeaderEpoch, TopicId, TopicPartition
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import Snapshot


class OneLeaderPerEpoch:
    """Remembers who led under each epoch, of a topic of this very id."""

    name = "I6 one leader per epoch"

    def __init__(self) -> None:
        self._changes = Changes()
        self._leader: dict[tuple[TopicPartition, TopicId, LeaderEpoch], BrokerId] = {}
        self._epochs: dict[tuple[TopicPartition, TopicId], tuple[LeaderEpoch, int]] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Two leaders of one epoch, or an epoch that went back."""
        for topic_partition in self._changes.since_last(snapshot):
            state = snapshot.states.get(topic_partition)
            if state is not None:
                yield from self._look_at_registry(topic_partition, state)
            for view in snapshot.replicas.get(topic_partition, ()):
                if view.is_leader and view.topic_id is not None:
                    key = (topic_partition, view.topic_id, view.leader_epoch)
                    known = self._leader.setdefault(key, view.broker_id)
                    if known != view.broker_id:
                        yield f"brokers {known} and {view.broker_id} both lead {topic_partition} in epoch {key[2]}"

    def _look_at_registry(self, topic_partition: TopicPartition, state: PartitionState) -> Iterator[str]:
        key = (topic_partition, state.topic_id)
        epochs = (state.leader_epoch, state.partition_epoch)
        before = self._epochs.get(key, epochs)
        if epochs[0] < before[0] or epochs[1] < before[1]:
            yield f"{topic_partition} went from (leader epoch, partition epoch) {before} back to {epochs}"
        self._epochs[key] = epochs
        if state.has_leader:
            known = self._leader.setdefault((*key, state.leader_epoch), state.leader)
            if known != state.leader:
                yield f"{topic_partition}: epoch {state.leader_epoch} was broker {known}'s and is {state.leader}'s"

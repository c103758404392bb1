"""Which partitions are not as they were at the last look: the others were found in order then, and are so still."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.controller import PartitionState
from tidelog.model import TopicPartition
from tidelog.simulation.observer import ReplicaView, Snapshot


class Changes:
    """One checker's memory of the snapshot it saw last. What has not changed is the same object (see `observer`)."""

    def __init__(self) -> None:
        self._replicas: Mapping[TopicPartition, tuple[ReplicaView, ...]] = {}
        self._states: Mapping[TopicPartition, PartitionState] = {}

    def since_last(self, snapshot: Snapshot) -> list[TopicPartition]:
        """Partitions of which a running replica or the registry's state is another one than last time."""
        replicas, states = self._replicas, self._states
        if snapshot.replicas is replicas and snapshot.states is states:
            return []
        self._replicas, self._states = snapshot.replicas, snapshot.states
        between = (
            id(replicas),
            id(states),
        )  # Both live as long as this checker has not looked, and so as long as the key is asked for.
        known = snapshot.changed_since.get(between)
        if known is None:
            known = snapshot.changed_since[between] = _changed(snapshot, replicas, states)
        return known


def _changed(
    snapshot: Snapshot,
    replicas: Mapping[TopicPartition, tuple[ReplicaView, ...]],
    states: Mapping[TopicPartition, PartitionState],
) -> list[TopicPartition]:
    changed = [
        topic_partition
        for topic_partition, views in snapshot.replicas.items()
        if replicas.get(topic_partition) is not views
        or states.get(topic_partition) is not snapshot.states.get(topic_partition)
    ]
    changed += [
        topic_partition
        for topic_partition, state in snapshot.states.items()
        if topic_partition not in snapshot.replicas and states.get(topic_partition) is not state
    ]
    return changed

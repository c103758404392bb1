"""I5, StrongIsr: all that lies below any presumed leader's high watermark is on every running member of the true ISR.

The true ISR is the registry's. A member that runs but has not yet heard of its role has its log all the same, and is asked too.

Under unclean elections (`may_lose`) a leader that was passed over may have committed what the new ISR never had. What holds then is said
of the leader in the registry's own epoch only: who is in its ISR has reached its high watermark in this epoch, or was in the ISR that it
came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.controller import PartitionState
from tidelog.simulation.checkers.agreement import Agreement
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot


class IsrHasCommitted:
    """Compares each leader with each running member."""

    name = "I5 the ISR has what is committed"

    def __init__(self, may_lose: Callable[[str], bool] = lambda _: False) -> None:
        self._may_lose = may_lose
        self._changes = Changes()
        self._agreement = Agreement()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Members that lack committed batches."""
        for topic_partition in self._changes.since_last(snapshot):
            state = snapshot.states.get(topic_partition)
            if state is not None:
                views = snapshot.replicas.get(topic_partition, ())
                for leader in views:
                    if leader.is_leader and leader.topic_id == state.topic_id and self._is_asked(leader, state):
                        yield from self._missing(leader, views, state)

    def _is_asked(self, leader: ReplicaView, state: PartitionState) -> bool:
        return leader.leader_epoch == state.leader_epoch or not self._may_lose(leader.topic_partition.topic)

    def _missing(self, leader: ReplicaView, views: tuple[ReplicaView, ...], state: PartitionState) -> Iterator[str]:
        for member in views:
            if member is leader or member.broker_id not in state.isr or member.topic_id != leader.topic_id:
                continue
            difference = self._agreement.difference(leader, member, leader.high_watermark)
            if difference is not None:
                yield (
                    f"{difference}; the first leads in epoch {leader.leader_epoch} with high watermark "
                    f"{leader.high_watermark}, the other is in the ISR {state.isr}"
                )

"""I5 with a memory: whoever may lead cleanly has all that was ever committed.

That is the ISR and the eligible replicas of the registry (KIP-966), less those it calls lost. StrongIsr compares them with the leaders
that run; but a leader may have died, and its successor may not have heard how far it had come. So the farthest high watermark of any
leader is remembered, and every running replica with standing has a log that reaches it. It is enough to compare where logs end: that they
hold the same batches, the others see. And who leads is in the ISR, of every topic.

Topics of unclean elections (`may_lose`) claim nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.controller import PartitionState
from tidelog.model import Offset, TopicId, TopicPartition
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot


class StandingHasCommitted:
    """Remembers how far each partition was ever committed, of a topic of this very id."""

    name = "I5 whoever may lead has what was committed"

    def __init__(self, may_lose: Callable[[str], bool] = lambda _: False) -> None:
        self._may_lose = may_lose
        self._changes = Changes()
        self._ends: dict[tuple[TopicPartition, TopicId], Offset] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Replicas with standing whose logs end too early, and leaders without any."""
        for topic_partition in self._changes.since_last(snapshot):
            state = snapshot.states.get(topic_partition)
            if state is not None and state.has_leader and state.leader not in state.isr:
                yield f"{topic_partition}: broker {state.leader} leads and is not in the ISR {list(state.isr)}"
            if state is None or self._may_lose(topic_partition.topic):
                continue
            views = [view for view in snapshot.replicas.get(topic_partition, ()) if view.topic_id == state.topic_id]
            end_offset = self._committed_end((topic_partition, state.topic_id), views)
            for view in views:
                if view.broker_id in _with_standing(state) and view.log_end_offset < end_offset:
                    yield (
                        f"{topic_partition}: committed up to {end_offset}, broker {view.broker_id} ends at {view.log_end_offset}; "
                        f"the registry has the ISR {list(state.isr)} and calls {list(state.eligible)} eligible"
                    )

    def _committed_end(self, topic: tuple[TopicPartition, TopicId], views: list[ReplicaView]) -> Offset:
        shown = [view.high_watermark for view in views if view.is_leader]
        end_offset = self._ends[topic] = max([self._ends.get(topic, 0), *shown])
        return end_offset


def _with_standing(state: PartitionState) -> frozenset[int]:
    return frozenset((*state.isr, *state.eligible)).difference(state.lost)

"""What members have while it is being assigned: begins with what they had and may keep."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordinator.group.consumer.assignors.specification import Assignment, MemberSpec
from tidelog.model import TopicId


class Holdings:
    """Partitions by member and topic, and those nobody has. Everything in an order that follows from ids alone."""

    def __init__(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[TopicId, int]) -> None:
        subscribed = set().union(*(spec.topics for spec in members.values()))
        self.partition_count = sum(partition_counts[topic_id] for topic_id in subscribed)
        self.free = {topic_id: dict.fromkeys(range(partition_counts[topic_id])) for topic_id in sorted(subscribed)}
        self.held: dict[str, dict[TopicId, set[int]]] = {member_id: {} for member_id in sorted(members)}
        self.loads = dict.fromkeys(self.held, 0)
        for member_id in self.held:
            self._keep(member_id, members[member_id])

    def _keep(self, member_id: str, spec: MemberSpec) -> None:
        for topic_id, partitions in spec.former.items():
            if topic_id in spec.topics:
                kept = self.free[topic_id].keys() & partitions
                if kept:
                    self.held[member_id][topic_id] = kept
                    self.loads[member_id] += len(kept)
                    for partition in kept:
                        del self.free[topic_id][partition]

    def take(self, member_id: str, topic_id: TopicId, partition: int) -> None:
        """Somebody gets a partition; it is still among the free ones, which are not looked at any more."""
        self.held[member_id].setdefault(topic_id, set()).add(partition)
        self.loads[member_id] += 1

    def give_up(self, member_id: str, count: int) -> None:
        """Somebody has so many too many: the last ones of the last topics are free again."""
        for topic_id in sorted(self.held[member_id], reverse=True):
            if count <= 0:
                return
            for partition in sorted(self.held[member_id][topic_id], reverse=True)[:count]:
                self.drop(member_id, topic_id, partition)
                self.free[topic_id][partition] = None
                count -= 1

    def drop(self, member_id: str, topic_id: TopicId, partition: int) -> None:
        """Somebody has it no longer."""
        self.held[member_id][topic_id].remove(partition)
        self.loads[member_id] -= 1

    def assignments(self) -> dict[str, Assignment]:
        """As they are now."""
        return {
            member_id: {topic_id: frozenset(held[topic_id]) for topic_id in sorted(held) if held[topic_id]}
            for member_id, held in self.held.items()
        }

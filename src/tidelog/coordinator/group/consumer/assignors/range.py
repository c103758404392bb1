"""The range assignor: each topic is cut into ranges, one per member, in the same order for all topics.

Topics with as many partitions as each other are cut in the same places, so that members who subscribe to the same topics can join their
data. It is sticky as far as the order of members is: static members come first, by their instance ids, which outlive restarts.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordinator.group.consumer.assignors.specification import Assignment, MemberSpec
from tidelog.model import TopicId


def assign_ranges(members: Mapping[str, MemberSpec], partition_counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
    """The first members of a topic get one partition more where they cannot all get as many."""
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id].instance_id))
    subscribers: dict[TopicId, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id in sorted(subscribers):
        readers = subscribers[topic_id]
        share, extra = divmod(partition_counts[topic_id], len(readers))
        start = 0
        for place, member_id in enumerate(readers):
            end = start + share + (place < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)

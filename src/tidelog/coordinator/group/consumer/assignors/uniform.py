"""The uniform assignor: everybody gets as much as everybody else, and keeps what it had as far as that allows.

If all members subscribe to the same topics, no two of them differ by more than one partition, and nothing moves that could have stayed.
If they do not, no partition can be given to another of its subscribers who would then still have fewer than its owner has now.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordinator.group.consumer.assignors.holdings import Holdings
from tidelog.coordinator.group.consumer.assignors.specification import Assignment, MemberSpec
from tidelog.coordinator.group.consumer.assignors.uneven import level
from tidelog.model import TopicId


def assign_uniformly(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """Balance first, then stickiness."""
    if not members:
        return {}
    holdings = Holdings(members, partition_counts)
    subscriptions = {spec.topics for spec in members.values()}
    if len(subscriptions) == 1:
        _share_equally(holdings)
    else:
        level(holdings, members)
    return holdings.assignments()


def _share_equally(holdings: Holdings) -> None:
    """Whoever has most may keep one more than the others, so that as little moves as can be."""
    share, extra = divmod(holdings.partition_count, len(holdings.loads))
    order = sorted(holdings.loads, key=lambda member_id: (-holdings.loads[member_id], member_id))
    quotas = {member_id: share + (place < extra) for place, member_id in enumerate(order)}
    for member_id in order:
        holdings.give_up(member_id, holdings.loads[member_id] - quotas[member_id])
    unowned = [(topic_id, partition) for topic_id, free in holdings.free.items() for partition in free]
    position = 0
    for member_id in sorted(order):
        wanted = quotas[member_id] - holdings.loads[member_id]
        for topic_id, partition in unowned[position : position + wanted]:
            holdings.take(member_id, topic_id, partition)
        position += wanted

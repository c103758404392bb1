"""The uniform assignor for members who do not all subscribe to the same topics."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from tidelog.coordinator.group.consumer.assignors.holdings import Holdings
from tidelog.coordinator.group.consumer.assignors.specification import MemberSpec
from tidelog.model import TopicId

ROUNDS_MAX: Final = 64
"""Every round that goes on evens something out, and a few are enough; the bound is for what nobody has thought of."""


def level(holdings: Holdings, members: Mapping[str, MemberSpec]) -> None:
    """Give away what nobody has, topics with few subscribers first; then take from those with much until nothing is gained."""
    subscribers: dict[TopicId, list[str]] = {topic_id: [] for topic_id in holdings.free}
    for member_id in holdings.loads:
        for topic_id in members[member_id].topics:
            subscribers[topic_id].append(member_id)
    order = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    for topic_id in order:
        _give_away(holdings, topic_id, subscribers[topic_id])
    for _ in range(ROUNDS_MAX):
        moved = [_even_out(holdings, topic_id, subscribers[topic_id]) for topic_id in order]
        if not any(moved):
            return


def _give_away(holdings: Holdings, topic_id: TopicId, subscribers: list[str]) -> None:
    free = holdings.free[topic_id]
    if not free:
        return
    least = [(holdings.loads[member_id], member_id) for member_id in subscribers]
    heapify(least)
    for partition in free:
        load, member_id = least[0]
        holdings.take(member_id, topic_id, partition)
        heapreplace(least, (load + 1, member_id))


def _even_out(holdings: Holdings, topic_id: TopicId, subscribers: list[str]) -> bool:
    """Move partitions of a topic from whoever has most of anything to whoever has least. Says whether any moved."""
    loads, held = holdings.loads, holdings.held
    if max(loads[member_id] for member_id in subscribers) - min(loads[member_id] for member_id in subscribers) < 2:
        return False
    least = [(loads[member_id], member_id) for member_id in subscribers]
    most = [(-loads[member_id], member_id) for member_id in subscribers if held[member_id].get(topic_id)]
    heapify(least)
    heapify(most)
    has_moved = False
    while most:
        load, giver = -most[0][0], most[0][1]
        if load != loads[giver] or not held[giver][topic_id]:
            heappop(most)
            continue
        while least[0][0] != loads[least[0][1]]:
            heapreplace(least, (loads[least[0][1]], least[0][1]))
        taker = least[0][1]
        if load - loads[taker] < 2:
            return has_moved
        partition = max(held[giver][topic_id])
        holdings.drop(giver, topic_id, partition)
        holdings.take(taker, topic_id, partition)
        has_moved = True
        heapreplace(most, (-loads[giver], giver))
        heapreplace(least, (loads[taker], taker))
        heappush(least, (loads[giver], giver))
        heappush(most, (-loads[taker], taker))
    return has_moved

"""Giving leadership back to preferred leaders, when too much of it has gone astray."""

from __future__ import annotations

from tidelog.controller.image import ClusterImage
from tidelog.model import BrokerId, TopicPartition


def imbalanced(image: ClusterImage, percentage: int) -> list[TopicPartition]:
    """The partitions to elect preferred leaders for.

    A broker is out of balance if more than `percentage` per cent of the partitions that prefer it are led by others. Of those, the ones
    that it could lead now are returned; what is being reassigned is left to that.
    """
    preferring: dict[BrokerId, int] = {}
    astray: dict[BrokerId, list[TopicPartition]] = {}
    able: dict[BrokerId, list[TopicPartition]] = {}
    for name, topic in image.topics.items():
        for index, state in topic.partitions.items():
            broker = state.preferred_leader
            preferring[broker] = preferring.get(broker, 0) + 1
            if state.leader != broker:
                partition = TopicPartition(name, index)
                astray.setdefault(broker, []).append(partition)
                if broker in state.isr and not state.is_reassigned:
                    able.setdefault(broker, []).append(partition)
    live = frozenset(image.brokers) - image.shutting_down
    return [
        partition
        for broker in sorted(able)
        if broker in live and len(astray[broker]) * 100 > percentage * preferring[broker]
        for partition in able[broker]
    ]

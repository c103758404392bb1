"""Which replicas a consumer was told to read from (KIP-392). Pure: told the time.

A leader may send a consumer to an in-sync replica that is nearer to it. That holds until metadata would be asked for again, so that a
replica which has come nearer is found, or until the replica fails in any way; then the leader is asked, and may send us away again.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from tidelog.model import BrokerId, TopicPartition


class _Preferred(NamedTuple):
    broker_id: BrokerId
    until_ms: float


class PreferredReplicas:
    """Where partitions are read instead of at their leaders, each for `lifetime_ms`."""

    def __init__(self, *, lifetime_ms: float) -> None:
        self._lifetime_ms = lifetime_ms
        self._preferred: dict[TopicPartition, _Preferred] = {}

    def source_of(
        self, topic_partition: TopicPartition, leader: BrokerId, *, now_ms: float, alive: Container[BrokerId]
    ) -> BrokerId:
        """The broker to read from: the one the leader named, while that holds and it is alive, or else the leader."""
        preferred = self._preferred.get(topic_partition)
        if preferred is None:
            return leader
        if now_ms >= preferred.until_ms or preferred.broker_id not in alive:
            del self._preferred[topic_partition]
            return leader
        return preferred.broker_id

    def on_told(self, topic_partition: TopicPartition, broker_id: BrokerId, *, now_ms: float) -> None:
        """The leader sends us to another replica."""
        self._preferred[topic_partition] = _Preferred(broker_id, now_ms + self._lifetime_ms)

    def forget(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
        """The replica could not serve us; returns whether it was one that we had been sent to."""
        preferred = self._preferred.get(topic_partition)
        if preferred is None or preferred.broker_id != broker_id:
            return False
        del self._preferred[topic_partition]
        return True

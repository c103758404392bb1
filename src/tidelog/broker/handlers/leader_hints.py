"""Who leads instead of us, and where that broker is: what Fetch and Produce say beside a stale-leader error (KIP-951).

A client that hears it need not ask for metadata, which after the death of a broker saves every client a round trip and the cluster a storm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.broker.metadata_cache import BrokerEndpoint
from tidelog.broker.node import Node
from tidelog.controller import NO_BROKER
from tidelog.model import ApiError, BrokerId, ErrorCode, LeaderEpoch, TopicId, TopicPartition
from tidelog.server import RequestContext

STALE_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHints:
    """The hints of one answer: leaders by partition, and the endpoints of all of them once."""

    def __init__(self, node: Node, context: RequestContext) -> None:
        self._node = node
        self._context = context
        self._named: set[BrokerId] = set()

    def of(self, topic: str, topic_id: TopicId | None, index: int) -> tuple[BrokerId, LeaderEpoch] | None:
        """The leader we were last told, by whichever way was faster; None where nobody leads that we know of."""
        try:
            topic_partition = TopicPartition(self._node.metadata.topic_name(topic, topic_id), index)
        except ApiError:
            return None  # Deleted meanwhile.
        told = max(self._told(topic_partition), key=lambda leader: leader[1], default=(NO_BROKER, -1))
        if told[0] == NO_BROKER:
            return None
        self._named.add(told[0])
        return told

    def _told(self, topic_partition: TopicPartition) -> Iterator[tuple[BrokerId, LeaderEpoch]]:
        topic = self._node.metadata.topic(topic_partition.topic)
        state = None if topic is None else topic.partitions.get(topic_partition.index)
        if state is not None:
            yield state.leader, state.leader_epoch
        try:
            leadership = self._node.replicas.partition(topic_partition).leadership
        except ApiError:
            return
        if leadership is not None:
            yield leadership.leader, leadership.leader_epoch

    def endpoints(self) -> Iterator[BrokerEndpoint]:
        """Where the named leaders are reached, on the listener that was asked."""
        if self._named:
            for endpoint in self._node.metadata.endpoints(self._context.listener, dialled=self._context.local):
                if endpoint.broker_id in self._named:
                    yield endpoint

"""DescribeReplicas, version 0; ours, not Kafka's, and advertised to nobody.

Behaviour: how the replicas of the broker that answers stand: role, epochs, offsets and, on leaders, how far each follower has come. It asks
nothing of other brokers; UNKNOWN_TOPIC_OR_PARTITION for what it has no log of, KAFKA_STORAGE_ERROR where the disk has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_replicas import DescribeReplicasRequest, DescribeReplicasResponse

API = ApiKey.DESCRIBE_REPLICAS


def handle(
    node: Node, context: RequestContext, request: DescribeReplicasRequest
) -> Awaitable[DescribeReplicasResponse]:
    """Look."""
    return node.descriptions.describe(request)

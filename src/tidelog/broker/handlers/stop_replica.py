"""StopReplica, version 4, on the inter-broker listener only.

Behaviour: the controller takes replicas away from this broker, and their logs where it says so. Fenced as LeaderAndIsr is; per partition
FENCED_LEADER_EPOCH where this broker knows a newer leader, KAFKA_STORAGE_ERROR where its disk has failed.

v4: whether the controller is one of KRaft (KIP-866).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

API = ApiKey.STOP_REPLICA


def handle(node: Node, context: RequestContext, request: StopReplicaRequest) -> Awaitable[StopReplicaResponse]:
    """Let go."""
    return node.control_plane.stop_replica(request)

"""LeaderAndIsr, version 7, on the inter-broker listener only.

Behaviour: the controller says which replicas of this broker lead and which follow. STALE_BROKER_EPOCH for a request that was meant for a
former life of this broker, STALE_CONTROLLER_EPOCH for one of a controller that was replaced; else a result per partition: KAFKA_STORAGE_ERROR
where its disk has failed, INCONSISTENT_TOPIC_ID where another topic had the name, STALE_CONTROLLER_EPOCH where this is no news.

v7: whether the controller is one of KRaft (KIP-866).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

API = ApiKey.LEADER_AND_ISR


def handle(node: Node, context: RequestContext, request: LeaderAndIsrRequest) -> Awaitable[LeaderAndIsrResponse]:
    """Do as told."""
    return node.control_plane.leader_and_isr(request)

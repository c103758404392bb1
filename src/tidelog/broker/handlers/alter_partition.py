"""AlterPartition, versions 2 and 3, on the inter-broker listener only.

Behaviour: a leader asks the controller for other in-sync replicas. NOT_CONTROLLER, STALE_BROKER_EPOCH for the whole request; per partition
FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION where the leader has missed a change, INELIGIBLE_REPLICA for a replica that is gone, leaving, or
was restarted since.

v2: topic ids (KIP-841).  v3: replicas with the epochs of their registrations (KIP-903).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker import controller_requests
from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

API = ApiKey.ALTER_PARTITION


def handle(node: Node, context: RequestContext, request: AlterPartitionRequest) -> Awaitable[AlterPartitionResponse]:
    """Let the controller decide."""
    return controller_requests.alter_partition(node.controller, request)

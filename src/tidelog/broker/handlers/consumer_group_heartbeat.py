"""ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848).

Behaviour: a member of a group of the consumer protocol joins, stays or leaves, says what it subscribes to and owns, and learns what it may
own. The coordinator decides.

v1: clients make their own member ids (KIP-1082); subscription by regular expression.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

API = ApiKey.CONSUMER_GROUP_HEARTBEAT


def handle(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Ask the coordinator."""
    return node.groups.ask(request.group_id, request, context)

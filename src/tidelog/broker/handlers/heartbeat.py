"""Heartbeat, versions 0 to 4.

Behaviour: a member of a classic group is alive, and learns whether it has to join again. The coordinator decides; an empty group id is
INVALID_GROUP_ID.

v1: throttle time.  v3: static members (KIP-345).  v4: flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API = ApiKey.HEARTBEAT


def handle(
    node: Node, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Ask the coordinator."""
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(request.group_id, request, context)

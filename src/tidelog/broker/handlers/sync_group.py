"""SyncGroup, versions 0 to 5.

Behaviour: the members of a generation wait for the assignment that its leader brings; it is written before anybody is told. The
coordinator decides; an empty group id is INVALID_GROUP_ID.

v1: throttle time.  v3: static members (KIP-345).  v4: flexible.  v5: protocol type and name, which are checked (KIP-559).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

API = ApiKey.SYNC_GROUP


def handle(
    node: Node, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Ask the coordinator."""
    if not request.group_id:
        return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(request.group_id, request, context)

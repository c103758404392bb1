"""JoinGroup, versions 0 to 9.

Behaviour: a member joins a classic group and is answered when the next generation is complete, or at once where nothing changes for it.
The coordinator decides; an empty group id is INVALID_GROUP_ID.

v0: the session timeout is the rebalance timeout too.  v4: MEMBER_ID_REQUIRED (KIP-394).  v5: static members (KIP-345).  v6: flexible.
v7: protocol type; the protocol's name may be null, before it is empty instead (KIP-559).  v8: reason.  v9: skip the assignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from tidelog.broker.handlers.group_requests import adapted
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

API = ApiKey.JOIN_GROUP

_NULLABLE_NAME_SINCE: Final = 7


def handle(
    node: Node, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Ask the coordinator."""
    if context.version == 0:
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    answer: JoinGroupResponse | Awaitable[JoinGroupResponse] = (
        node.groups.ask(request.group_id, request, context)
        if request.group_id
        else JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id)
    )
    return answer if context.version >= _NULLABLE_NAME_SINCE else adapted(answer, _without_null)


def _without_null(answer: JoinGroupResponse) -> JoinGroupResponse:
    return replace(answer, protocol_name="") if answer.protocol_name is None else answer

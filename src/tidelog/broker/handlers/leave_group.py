"""LeaveGroup, versions 0 to 5.

Behaviour: members leave a classic group, or an administrator removes them, by instance id where the member id is empty. The coordinator
decides and is always given a list of members; an empty group id is INVALID_GROUP_ID.

v1: throttle time.  v3: several members with a result each; before, the one member's result is that of the request (KIP-345).  v4: flexible.
v5: reason (KIP-800).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from tidelog.broker.handlers.group_requests import adapted, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

API = ApiKey.LEAVE_GROUP

_SEVERAL_SINCE: Final = 3
_MEMBERS_PER_SLICE: Final = 1_000


def handle(
    node: Node, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Ask the coordinator."""
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if context.version >= _SEVERAL_SINCE:
        if len(request.members) > _MEMBERS_PER_SLICE:
            return _leave_in_slices(node, context, request)
        return node.groups.ask(request.group_id, request, context)
    one = LeaveGroupRequest(group_id=request.group_id, members=(MemberIdentity(member_id=request.member_id),))
    return adapted(node.groups.ask(request.group_id, one, context), _of_one_member)


async def _leave_in_slices(node: Node, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """A few at a time: more of them than a group ever has would hold up everybody else."""
    left: list[MemberResponse] = []
    for start in range(0, len(request.members), _MEMBERS_PER_SLICE):
        some = replace(request, members=request.members[start : start + _MEMBERS_PER_SLICE])
        answer = await settled(node.groups.ask(request.group_id, some, context))
        if answer.error_code:
            return answer
        left += answer.members
        await asyncio.sleep(0)
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=tuple(left))


def _of_one_member(answer: LeaveGroupResponse) -> LeaveGroupResponse:
    codes = (answer.error_code, *(member.error_code for member in answer.members))
    return LeaveGroupResponse(error_code=next((code for code in codes if code), ErrorCode.NONE))

"""DescribeGroups, versions 0 to 6.

Behaviour: the state and the members of classic groups, each asked of its coordinator. Before version 6 a group that nobody knows is Dead,
without an error; the empty group id is a group like any other, as in Kafka.

v1: throttle time.  v3: authorized operations (KIP-430).  v4: static members (KIP-345).  v5: flexible.
v6: error message, GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.handlers.authorized_operations import ON_GROUP
from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

API = ApiKey.DESCRIBE_GROUPS

_NOT_FOUND_SINCE: Final = 6


async def handle(node: Node, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Ask the coordinator of every group by itself."""

    async def describe(group_id: str) -> DescribedGroup:
        asked = DescribeGroupsRequest(groups=(group_id,))
        (group,) = (await settled(node.groups.ask(group_id, asked, context))).groups
        if context.version < _NOT_FOUND_SINCE and group.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            group = DescribedGroup(error_code=ErrorCode.NONE, group_id=group_id, group_state="Dead")
        if request.include_authorized_operations and not group.error_code:
            return replace(group, authorized_operations=ON_GROUP)
        return group

    # Each once: an answer is not to grow with how often a large group is named.
    return DescribeGroupsResponse(groups=await ask_each(list(dict.fromkeys(request.groups)), describe))

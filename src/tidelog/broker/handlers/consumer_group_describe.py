"""ConsumerGroupDescribe, versions 0 and 1 (KIP-848).

Behaviour: the state, the epochs and the members of groups of the consumer protocol, each asked of its coordinator. An empty group id is
INVALID_GROUP_ID, a group that nobody knows or that is a classic one GROUP_ID_NOT_FOUND.

v1: the type of each member (KIP-1099).
"""

from __future__ import annotations

from dataclasses import replace

from tidelog.broker.handlers.authorized_operations import ON_GROUP
from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

API = ApiKey.CONSUMER_GROUP_DESCRIBE


async def handle(
    node: Node, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Ask the coordinator of every group by itself."""

    async def describe(group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
        asked = ConsumerGroupDescribeRequest(group_ids=(group_id,))
        (group,) = (await settled(node.groups.ask(group_id, asked, context))).groups
        if request.include_authorized_operations and not group.error_code:
            return replace(group, authorized_operations=ON_GROUP)
        return group

    # Each once: an answer is not to grow with how often a large group is named.
    return ConsumerGroupDescribeResponse(groups=await ask_each(list(dict.fromkeys(request.group_ids)), describe))

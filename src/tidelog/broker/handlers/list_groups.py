"""ListGroups, versions 0 to 5.

Behaviour: the groups of all partitions of `__consumer_offsets` that this broker leads, by their ids. While one of them is being loaded,
nothing is listed and the error says so: COORDINATOR_LOAD_IN_PROGRESS. One that goes elsewhere meanwhile is listed there. A broker that
starts or stops does not know its groups: COORDINATOR_NOT_AVAILABLE.

v1: throttle time.  v3: flexible.  v4: states and a filter by them (KIP-518).  v5: types and a filter by them (KIP-848).
"""

from __future__ import annotations

from operator import attrgetter

from tidelog.broker.handlers.group_requests import in_order
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

API = ApiKey.LIST_GROUPS


async def handle(node: Node, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Ask all that are coordinated here, and list them together."""
    if not node.groups.is_started:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = await node.groups.ask_all(request, context)
    for answer in answers:
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
            return ListGroupsResponse(error_code=answer.error_code)
    groups = await in_order((answer.groups for answer in answers), attrgetter("group_id"))
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

"""DeleteGroups, versions 0 to 2.

Behaviour: groups without members are forgotten with all that they committed, each by its coordinator: NON_EMPTY_GROUP where there are
members, GROUP_ID_NOT_FOUND where there is no such group. The empty group id is a group like any other, as in Kafka.

v1: throttling moves to the client (KIP-219).  v2: flexible.
"""

from __future__ import annotations

from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

API = ApiKey.DELETE_GROUPS


async def handle(node: Node, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Ask the coordinator of every group by itself."""

    async def delete(group_id: str) -> DeletableGroupResult:
        asked = DeleteGroupsRequest(groups_names=(group_id,))
        (result,) = (await settled(node.groups.ask(group_id, asked, context))).results
        return result

    return DeleteGroupsResponse(results=await ask_each(list(dict.fromkeys(request.groups_names)), delete))

"""FindCoordinator, versions 0 to 6.

Behaviour: a group is looked after by the leader of its partition of `__consumer_offsets`, a transactional id by that of its partition of
`__transaction_state`. Asking for the first has that topic made; until it has a leader, or while too few brokers live to make it, the answer
is COORDINATOR_NOT_AVAILABLE with the reason. librdkafka concludes from this API that a broker knows lz4, and else sends uncompressed.

v1: key type and error message (KIP-98).  v3: flexible.  v4: several keys (KIP-699).  v6: share groups (KIP-932), which are not served.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.broker.coordination import Coordination
from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ApiKey.FIND_COORDINATOR

_GROUP: Final = 0
_TRANSACTION: Final = 1
_BATCHED_SINCE: Final = 4

KEYS_PER_SLICE: Final = 200
"""How many keys are looked up before others have their turn."""


async def handle(node: Node, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Name the broker of each key, or say why there is none. Each once, however often it is asked for, and a few hundred at a time."""
    if context.version < _BATCHED_SINCE:
        one = _find(node, context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    coordinators = []
    for number, key in enumerate(dict.fromkeys(request.coordinator_keys), 1):
        coordinators.append(_find(node, context, request.key_type, key))
        if number % KEYS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return FindCoordinatorResponse(coordinators=tuple(coordinators))


def _find(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        return _found(node, context, key_type, key)
    except ApiError as error:
        return Coordinator(key=key, error_code=error.code, error_message=error.message)


def _found(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in (_GROUP, _TRANSACTION):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"key type {key_type}; 0 and 1 exist")
    is_group = key_type == _GROUP
    coordination: Coordination = node.groups if is_group else node.transactions
    index = coordination.locate(key)
    if index is None:
        topics = node.internal_topics
        why = topics.want_groups() if is_group else topics.want_transactions()
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    leader = coordination.coordinator_of(key)
    for broker in node.metadata.endpoints(context.listener, dialled=context.local):
        if broker.broker_id == leader:
            return Coordinator(
                key=key, node_id=leader, host=broker.host, port=broker.port, error_code=ErrorCode.NONE, error_message=""
            )
    raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{coordination.topic}-{index} has no leader at present")

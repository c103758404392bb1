"""Handlers of what only the controller decides: whichever broker is asked sends the request on to it and relays the answer.

Where nobody knows a controller, or it cannot be reached, the request is decided here, by a controller that is none: it answers everything
with NOT_CONTROLLER, in the words of each API, and clients ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, cast

from tidelog.broker.node import Node
from tidelog.broker.peers import PEER_CLIENT_ID
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.model import ApiError
from tidelog.runtime.logs import fields
from tidelog.server import Handler, RequestContext
from tidelog.wire.api import ApiKey, Request, Response

logger = logging.getLogger(__name__)

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
_ALTERING: Final = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})

Handle: TypeAlias = Callable[[Node, RequestContext, object], object]


def forwarded(node: Node, key: ApiKey, handle: Handle) -> Handler:
    """A handler that answers where this broker is the controller, and sends on where another is."""

    def serve(context: RequestContext, request: object) -> object:
        was_sent_on = node.is_inter_broker(context.listener) and context.client_id.startswith(PEER_CLIENT_ID)
        if node.controller.is_active or was_sent_on:
            return handle(node, context, request)
        return _send_on(node, key, handle, context, request)

    return serve


async def _send_on(node: Node, key: ApiKey, handle: Handle, context: RequestContext, request: object) -> Response:
    try:
        response = await node.controller_line.ask(cast("Request[Response]", request), version=context.version)
    except (ConnectionLost, UnsupportedApi, ApiError) as error:
        logger.warning("request not sent on to the controller", extra=fields(request=key.name, reason=error))
        answer = handle(node, context, request)
        return answer if isinstance(answer, Response) else await cast("Awaitable[Response]", answer)
    if key in _ALTERING:
        await node.configs.catch_up()
    return response

"""ControlledShutdown, version 3, on the inter-broker listener only.

Behaviour: a broker that is about to stop asks the controller to have its partitions led elsewhere; answered with those that nobody else can
lead. NOT_CONTROLLER where this broker is not the controller, STALE_BROKER_EPOCH for a former life of the broker.

v3: flexible (KIP-482).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker import controller_requests
from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

API = ApiKey.CONTROLLED_SHUTDOWN


def handle(
    node: Node, context: RequestContext, request: ControlledShutdownRequest
) -> Awaitable[ControlledShutdownResponse]:
    """Let the controller decide."""
    return controller_requests.controlled_shutdown(node.controller, request)

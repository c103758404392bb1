"""ListConfigResources, versions 0 and 1.

Behaviour: the names of what has settings, by type: topics (2) and brokers (4). Client metrics (16), groups (32) and the loggers of a broker
(8) exist as types, but there are none. Without types all are listed; a type that does not exist is answered with UNSUPPORTED_VERSION.

v0: subscriptions of client metrics (KIP-714, then called ListClientMetricsResources).  v1: all types (KIP-1142).
"""

from __future__ import annotations

from tidelog.broker.handlers.config_resources import ResourceType
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

API = ApiKey.LIST_CONFIG_RESOURCES


def handle(node: Node, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List what there is of each type."""
    if context.version == 0:
        return ListConfigResourcesResponse()
    types = set(request.resource_types or ResourceType)
    if not types <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = node.metadata.image
    names = {
        ResourceType.TOPIC: sorted(image.topics),
        ResourceType.BROKER: [str(broker_id) for broker_id in sorted(image.brokers)],
    }
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if kind in types
            for name in names.get(kind, ())
        )
    )

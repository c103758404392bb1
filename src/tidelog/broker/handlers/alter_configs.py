"""AlterConfigs, versions 0 to 2.

Behaviour: the settings named become all the settings a topic or broker has of its own; those not named go back to what would hold without
them. Each resource is altered as a whole or not at all, and the settings hold when the answer comes.

Errors as of IncrementalAlterConfigs.

v0: KIP-133.  v1: throttling moves to the client (KIP-219).  v2: flexible.
"""

from __future__ import annotations

from tidelog.broker.handlers.config_resources import AskedAlteration, alter
from tidelog.broker.node import Node
from tidelog.controller import ConfigChange, ConfigOperation
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API = ApiKey.ALTER_CONFIGS


async def handle(node: Node, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Let the controller decide about every resource."""
    errors = await alter(node, [_asked(one) for one in request.resources], validate_only=request.validate_only)
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, errors, strict=True)
        )
    )


def _asked(resource: AlterConfigsResource) -> AskedAlteration:
    return AskedAlteration(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes=tuple(
            ConfigChange(name=row.name, operation=ConfigOperation.SET, value=row.value) for row in resource.configs
        ),
        replaces_all=True,
    )

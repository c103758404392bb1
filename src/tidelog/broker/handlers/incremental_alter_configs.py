"""IncrementalAlterConfigs, versions 0 and 1.

Behaviour: some settings of topics and brokers are set (0), deleted (1), appended to (2) or taken from (3); the others stay. Each resource is
altered as a whole or not at all, and the settings hold when the answer comes: logs that are open go on under them. A broker is altered by
its own id, or all of them by the empty name, and only in settings that take effect without a restart.

UNKNOWN_TOPIC_OR_PARTITION for a topic that is not there, INVALID_CONFIG for what a topic cannot have, INVALID_REQUEST for a broker that is
not this one, for settings that need a restart, for types of resources that have no settings, and for what is named twice.

v0: KIP-339.  v1: flexible.
"""

from __future__ import annotations

from tidelog.broker.handlers.config_resources import AskedAlteration, alter
from tidelog.broker.node import Node
from tidelog.controller import ConfigChange, ConfigOperation
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = ApiKey.INCREMENTAL_ALTER_CONFIGS


async def handle(
    node: Node, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Let the controller decide about every resource."""
    errors = await alter(node, [_asked(one) for one in request.resources], validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
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
        changes=_changes(resource.configs),
    )


def _changes(configs: tuple[AlterableConfig, ...]) -> tuple[ConfigChange, ...] | ApiError:
    known = {operation.value: operation for operation in ConfigOperation}
    unknown = [row.config_operation for row in configs if row.config_operation not in known]
    if unknown:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {unknown[0]}; 0 to 3 exist")
    return tuple(ConfigChange(name=row.name, operation=known[row.config_operation], value=row.value) for row in configs)

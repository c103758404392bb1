"""ListConfigResources: what has settings (KIP-1142; in version 0 the subscriptions of client metrics only)."""

from __future__ import annotations

from typing import Final

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed

CLIENT_METRICS: Final = 16


@message
class ConfigResource:
    """A resource by name and type."""

    resource_name: str
    resource_type: int = CLIENT_METRICS


@message
class ListConfigResourcesResponse(Response):
    """All resources of the types asked for."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    config_resources: tuple[ConfigResource, ...] = ()


@message
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """Types of resources; none asks for all."""

    resource_types: tuple[int, ...] = needed(())


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    served=VersionRange(0, 1),
    flexible_from=0,
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    changes={0: "client metrics subscriptions (KIP-714)", 1: "resources of all types (KIP-1142)"},
)

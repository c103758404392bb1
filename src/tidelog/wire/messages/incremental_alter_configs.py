"""IncrementalAlterConfigs: change some settings of topics and brokers and leave the others alone."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: ErrorCode
    error_message: str | None = None
    resource_type: int
    resource_name: str


@message
class IncrementalAlterConfigsResponse(Response):
    """One result per resource."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


@message
class AlterableConfig:
    """One change: operation 0 sets, 1 deletes, 2 appends to a list, 3 takes from a list."""

    name: str
    config_operation: int
    value: str | None


@message
class AlterConfigsResource:
    """A topic (type 2) or broker (4) with its changes."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@message
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Resources to alter, or only to check."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


API = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    served=VersionRange(0, 1),
    flexible_from=1,
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    changes={1: "flexible (KIP-482)"},
)

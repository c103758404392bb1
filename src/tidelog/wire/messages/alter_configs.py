"""AlterConfigs: replace all settings of topics and brokers at once."""

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
class AlterConfigsResponse(Response):
    """One result per resource."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


@message
class AlterableConfig:
    """One setting."""

    name: str
    value: str | None


@message
class AlterConfigsResource:
    """A topic (type 2) or broker (4) with all settings it shall have; those not named go back to their defaults."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@message
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Resources to alter, or only to check."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


API = Api(
    key=ApiKey.ALTER_CONFIGS,
    served=VersionRange(0, 2),
    flexible_from=2,
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    changes={1: "throttled after the response is sent (KIP-219)", 2: "flexible (KIP-482)"},
)

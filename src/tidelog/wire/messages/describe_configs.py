"""DescribeConfigs: the settings of topics and brokers, where each comes from and what it means."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class DescribeConfigsSynonym:
    """One of the places a value can come from, under the name it has there."""

    name: str
    value: str | None
    source: int


@message
class DescribeConfigsResourceResult:
    """One setting; sensitive values are null."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


@message
class DescribeConfigsResult:
    """The settings of one resource, or why they cannot be shown."""

    error_code: ErrorCode
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@message
class DescribeConfigsResponse(Response):
    """One result per resource asked for."""

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...]


@message
class DescribeConfigsResource:
    """A topic (type 2) or broker (4); without keys, all its settings."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@message
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Resources to describe."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


API = Api(
    key=ApiKey.DESCRIBE_CONFIGS,
    served=VersionRange(1, 4),
    flexible_from=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    changes={
        1: "sources and synonyms (KIP-226)",
        2: "throttled after the response is sent (KIP-219)",
        3: "types and documentation (KIP-569)",
        4: "flexible (KIP-482)",
    },
)

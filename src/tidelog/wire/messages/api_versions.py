"""ApiVersions: which APIs and versions a broker serves; the first request of a connection."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class ApiVersion:
    """The versions of one API, both inclusive."""

    api_key: int
    min_version: int
    max_version: int


@message
class SupportedFeatureKey:
    """A feature that this broker could run, and at which levels."""

    name: str
    min_version: int
    max_version: int


@message
class FinalizedFeatureKey:
    """A feature that the whole cluster runs, and at which levels."""

    name: str
    max_version_level: int
    min_version_level: int


@message
class ApiVersionsResponse(Response):
    """Every API advertised. In versions 0 to 3 features whose lowest level is 0 are left out by the handler."""

    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False


@message
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Who is asking; empty before version 3."""

    client_software_name: str = ""
    client_software_version: str = ""


API = Api(
    key=ApiKey.API_VERSIONS,
    served=VersionRange(0, 4),
    flexible_from=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    changes={
        1: "throttle time",
        2: "throttled after the response is sent (KIP-219)",
        3: "client software name and version (KIP-511), features (KIP-584); the response header stays version 0",
        4: "features whose lowest level is 0 (KIP-1022)",
    },
)

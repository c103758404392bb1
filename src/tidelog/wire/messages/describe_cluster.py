"""DescribeCluster: who is there, without asking for topics."""

from __future__ import annotations

from typing import Final

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed

OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


@message
class DescribeClusterBroker:
    """One broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@message
class DescribeClusterResponse(Response):
    """The cluster as one broker sees it."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = BROKER_ENDPOINTS
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED_FOR


@message
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Endpoint type 1 asks for brokers, 2 for controllers."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = needed(BROKER_ENDPOINTS)
    include_fenced_brokers: bool = False


API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    served=VersionRange(0, 2),
    flexible_from=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    changes={1: "endpoint type (KIP-919)", 2: "fenced brokers (KIP-1073)"},
)

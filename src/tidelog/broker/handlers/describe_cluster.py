"""DescribeCluster, versions 0 to 2 (KIP-700).

Behaviour: the cluster's id, its controller, and the live brokers with the endpoint of the listener the client came in on. A broker that is
not live has no endpoint to tell, so there are no fenced brokers. Controllers have no endpoints of their own: asking for them is answered
with MISMATCHED_ENDPOINT_TYPE, as a Kafka broker does; a type that does not exist with UNSUPPORTED_ENDPOINT_TYPE.

v1: endpoint type (KIP-919).  v2: fenced brokers (KIP-1073).
"""

from __future__ import annotations

from tidelog.broker.handlers.authorized_operations import ON_CLUSTER
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_cluster import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    OPERATIONS_NOT_ASKED_FOR,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API = ApiKey.DESCRIBE_CLUSTER


def handle(node: Node, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the newest image."""
    match request.endpoint_type:
        case t if t == BROKER_ENDPOINTS:
            return _describe(node, context, request)
        case t if t == CONTROLLER_ENDPOINTS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            )
        case unknown:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {unknown}"
            )


def _describe(node: Node, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        cluster_id=node.metadata.cluster_id,
        controller_id=node.metadata.controller_id,
        brokers=tuple(
            DescribeClusterBroker(broker_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in node.metadata.endpoints(context.listener, dialled=context.local)
        ),
        cluster_authorized_operations=(
            ON_CLUSTER if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED_FOR
        ),
    )

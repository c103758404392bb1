"""UpdateMetadata, version 8, on the inter-broker listener only.

Behaviour: the controller says which brokers live and how partitions stand; clients are told that from now on. Fenced as LeaderAndIsr is.

v8: whether the controller is one of KRaft, and whether the request is complete (KIP-866).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.broker.node import Node
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

API = ApiKey.UPDATE_METADATA


def handle(node: Node, context: RequestContext, request: UpdateMetadataRequest) -> Awaitable[UpdateMetadataResponse]:
    """Remember it."""
    return node.control_plane.update_metadata(request)

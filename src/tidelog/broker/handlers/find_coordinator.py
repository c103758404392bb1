"""FindCoordinator, versions 0 to 6.

Behaviour: this broker hosts no coordinators yet, so every key is answered with COORDINATOR_NOT_AVAILABLE, as Kafka answers while the
internal topics are missing. It is served at all because librdkafka concludes from it that a broker knows lz4, and else sends uncompressed.

v1: key type and error message (KIP-98).  v3: flexible.  v4: several keys (KIP-699).  v6: share groups (KIP-932).
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ApiKey.FIND_COORDINATOR

_KEY_TYPES: Final = {0: "consumer groups", 1: "transactions"}
_BATCHED_SINCE: Final = 4


def handle(node: Node, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Refuse every key with the reason."""
    what = _KEY_TYPES.get(request.key_type)
    code = ErrorCode.INVALID_REQUEST if what is None else ErrorCode.COORDINATOR_NOT_AVAILABLE
    message = (
        f"key type {request.key_type}; 0 and 1 exist" if what is None else f"this broker does not serve {what} yet"
    )
    if context.version < _BATCHED_SINCE:
        return FindCoordinatorResponse(error_code=code, error_message=message)
    return FindCoordinatorResponse(
        coordinators=tuple(
            Coordinator(key=key, error_code=code, error_message=message) for key in request.coordinator_keys
        )
    )

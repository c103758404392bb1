"""Heartbeat: a member of a classic group is alive."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class HeartbeatResponse(Response):
    """Whether the member may go on, or has to join again."""

    throttle_time_ms: int = 0
    error_code: ErrorCode


@message
class HeartbeatRequest(Request[HeartbeatResponse]):
    """A member and the generation that it belongs to."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = needed(None)


API = Api(
    key=ApiKey.HEARTBEAT,
    served=VersionRange(0, 4),
    flexible_from=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "static members (KIP-345)",
        4: "flexible (KIP-482)",
    },
)

"""SyncGroup: hand out what the leader of a classic group assigned, and learn one's own part of it."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class SyncGroupResponse(Response):
    """The assignment of the member that asked, in the words of the group's protocol."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@message
class SyncGroupRequestAssignment:
    """What the leader gives to one member."""

    member_id: str
    assignment: bytes


@message
class SyncGroupRequest(Request[SyncGroupResponse]):
    """A member of a generation; assignments come from its leader only."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = needed(None)
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


API = Api(
    key=ApiKey.SYNC_GROUP,
    served=VersionRange(0, 5),
    flexible_from=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "static members (KIP-345)",
        4: "flexible (KIP-482)",
        5: "protocol type and name, which are checked (KIP-559)",
    },
)

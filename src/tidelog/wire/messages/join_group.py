"""JoinGroup: become a member of a classic group and wait until the next generation of it is complete."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class JoinGroupResponseMember:
    """A member and what it said about itself, as the leader of the group is told."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


@message
class JoinGroupResponse(Response):
    """The generation and who leads it; the members are told to the leader only. Names are null where there is no generation."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str
    members: tuple[JoinGroupResponseMember, ...] = ()


@message
class JoinGroupRequestProtocol:
    """A way to assign that the member supports, and its subscription in the words of that protocol."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest(Request[JoinGroupResponse]):
    """The member id is empty until the broker gave one. The rebalance timeout is -1 in version 0, where the session's holds for both."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    member_id: str
    group_instance_id: str | None = needed(None)
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None


API = Api(
    key=ApiKey.JOIN_GROUP,
    served=VersionRange(0, 9),
    flexible_from=6,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    changes={
        1: "rebalance timeout (KIP-62)",
        2: "throttle time (KIP-124)",
        3: "throttled after the response is sent (KIP-219)",
        4: "MEMBER_ID_REQUIRED (KIP-394)",
        5: "static members (KIP-345)",
        6: "flexible (KIP-482)",
        7: "protocol type, nullable protocol name (KIP-559)",
        8: "reason (KIP-800)",
        9: "the leader may be told to skip the assignment (KIP-814)",
    },
)

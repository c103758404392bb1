"""LeaveGroup: members leave a classic group, or are removed from it."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class MemberResponse:
    """What became of one member."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode


@message
class LeaveGroupResponse(Response):
    """An error of the group as a whole; from version 3 one result per member beside it."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    members: tuple[MemberResponse, ...] = ()


@message
class MemberIdentity:
    """A member by its id, or by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@message
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """One member up to version 2, in a field of its own; from version 3 any number. The coordinator is given `members` always."""

    group_id: str
    member_id: str = needed("")
    members: tuple[MemberIdentity, ...] = needed(())


API = Api(
    key=ApiKey.LEAVE_GROUP,
    served=VersionRange(0, 5),
    flexible_from=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "several members, static ones too (KIP-345)",
        4: "flexible (KIP-482)",
        5: "reason (KIP-800)",
    },
)

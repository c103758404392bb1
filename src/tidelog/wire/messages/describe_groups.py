"""DescribeGroups: the state and the members of classic groups."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.messages.metadata import AUTHORIZED_OPERATIONS_NOT_ASKED


@message
class DescribedGroupMember:
    """A member, what it said about itself and what it was given, in the words of the group's protocol."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@message
class DescribedGroup:
    """One group, or why it cannot be shown."""

    error_code: ErrorCode
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_ASKED


@message
class DescribeGroupsResponse(Response):
    """One group per id asked for."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...]


@message
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Groups by id."""

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


API = Api(
    key=ApiKey.DESCRIBE_GROUPS,
    served=VersionRange(0, 6),
    flexible_from=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "authorized operations (KIP-430)",
        4: "static members (KIP-345)",
        5: "flexible (KIP-482)",
        6: "error message, GROUP_ID_NOT_FOUND (KIP-1043)",
    },
)

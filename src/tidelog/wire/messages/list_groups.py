"""ListGroups: the groups that one broker coordinates."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class ListedGroup:
    """A group, the state that it is in (from version 4) and the protocol that it speaks (from version 5)."""

    group_id: str
    protocol_type: str
    group_state: str = ""
    group_type: str = ""


@message
class ListGroupsResponse(Response):
    """The groups, or why they cannot be listed now."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


@message
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Which states and types to list, in any case of letters; empty is all."""

    states_filter: tuple[str, ...] = needed(())
    types_filter: tuple[str, ...] = needed(())


API = Api(
    key=ApiKey.LIST_GROUPS,
    served=VersionRange(0, 5),
    flexible_from=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "flexible (KIP-482)",
        4: "states, and a filter by them (KIP-518)",
        5: "types, and a filter by them (KIP-848)",
    },
)

"""DeleteGroups: forget groups that have no members, with all that they committed."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class DeletableGroupResult:
    """What became of one group."""

    group_id: str
    error_code: ErrorCode


@message
class DeleteGroupsResponse(Response):
    """One result per group asked for."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...]


@message
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Groups by id."""

    groups_names: tuple[str, ...] = ()


API = Api(
    key=ApiKey.DELETE_GROUPS,
    served=VersionRange(0, 2),
    flexible_from=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    changes={
        1: "throttled after the response is sent (KIP-219)",
        2: "flexible (KIP-482)",
    },
)

"""FindCoordinator: which broker looks after a consumer group or a transactional id."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class Coordinator:
    """The broker of one key, or why there is none."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@message
class FindCoordinatorResponse(Response):
    """One coordinator up to version 3, in the fields of its own; from version 4 one per key."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    coordinators: tuple[Coordinator, ...] = ()


@message
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """One key up to version 3, any number from version 4. Key type 0 is a group, 1 a transactional id, 2 a share group."""

    key: str = needed("")
    key_type: int = needed(0)
    coordinator_keys: tuple[str, ...] = needed(())


API = Api(
    key=ApiKey.FIND_COORDINATOR,
    served=VersionRange(0, 6),
    flexible_from=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    changes={
        1: "key type and error message (KIP-98)",
        2: "throttled after the response is sent (KIP-219)",
        3: "flexible (KIP-482)",
        4: "several keys (KIP-699)",
        5: "TRANSACTION_ABORTABLE (KIP-890)",
        6: "share groups (KIP-932)",
    },
)

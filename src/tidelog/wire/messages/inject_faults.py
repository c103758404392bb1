"""InjectFaults: what shall go wrong with a broker that was started for tests, and what goes wrong already. Ours, not Kafka's."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int8, Int16, Int32

BEGIN: Final = 0
END: Final = 1
LIST: Final = 2

CLIENTS: Final = -1
"""The other end of a link that is no broker."""
FOR_EVER: Final = -1


class FaultKind(StrEnum):
    """What can go wrong."""

    CUT = "cut"
    """Requests of a peer, and answers to it, wait until the link is mended."""
    FULL_DISK = "full-disk"
    """Nothing more can be written; what is there can be read."""
    ANSWER = "answer"
    """Requests of one API are not looked at, but answered with an error."""
    DELAY = "delay"
    """Requests of one API are looked at late."""


@message
class Fault:
    """One thing that goes wrong, in the fields that its kind has; the others are as they are by default."""

    kind: str
    peer_id: Int32 = CLIENTS
    is_of_brokers: bool = False
    api_key: Int16 = -1
    error: ErrorCode = ErrorCode.NONE
    delay_ms: Int32 = 0
    times: Int32 = FOR_EVER


@message
class InjectFaultsResponse(Response):
    """The faults that stand now, with how many times are left of each; or why nothing was changed."""

    error_code: ErrorCode
    error_message: str | None = None
    faults: tuple[Fault, ...] = ()


@message
class InjectFaultsRequest(Request[InjectFaultsResponse]):
    """Faults that begin, or end: where none is named, all do. Or nothing but the question which there are."""

    action: Int8
    faults: tuple[Fault, ...] = ()


API = Api(
    key=ApiKey.INJECT_FAULTS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=InjectFaultsRequest,
    response=InjectFaultsResponse,
    changes={},
    is_private=True,
    declares_itself=True,
)

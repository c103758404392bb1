"""What brokers say to prepared transactions, in words for the one who chose commit.mode=2pc."""

from __future__ import annotations

from typing import Final

from tidelog.client import ClientError, RequestRefused, UnsupportedApi
from tidelog.model import ErrorCode
from tidelog.pipeline.sink import commit_trouble
from tidelog.pipeline.sink.options import SinkSettings

_CANNOT: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST})
_MAY_NOT: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def explained(error: ClientError, settings: SinkSettings) -> str:
    """What went wrong, and what to do about it where that is known."""
    reason = commit_trouble.reason_of(error)
    brokers = settings.properties["bootstrap.servers"]
    if isinstance(reason, UnsupportedApi) or (isinstance(reason, RequestRefused) and reason.code in _CANNOT):
        return (
            f"option commit.mode: 2pc needs brokers that keep prepared transactions (KIP-939), which those at {brokers} do "
            f"not; set it to batch, which is exactly once with any broker that has transactions ({reason})"
        )
    if isinstance(reason, RequestRefused) and reason.code is _MAY_NOT:
        return (
            f"option commit.mode: 2pc must be allowed by the brokers at {brokers}: set "
            f"transaction.two.phase.commit.enable=true for each of them, or commit.mode to batch ({reason})"
        )
    return commit_trouble.explained(error, settings)

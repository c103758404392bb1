"""The isolation level of a request, checked once."""

from __future__ import annotations

from tidelog.model import ApiError, ErrorCode, IsolationLevel


def isolation_level(value: int) -> IsolationLevel:
    """What the client may see. Raises ApiError for a number that names none."""
    try:
        return IsolationLevel(value)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"isolation level {value}; 0 and 1 exist") from None

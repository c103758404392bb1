"""What an answer to a produced batch means. Pure."""

from __future__ import annotations

import enum
from typing import Final

from tidelog.model import ErrorCode


class Verdict(enum.Enum):
    """What becomes of the batch."""

    ACKNOWLEDGED = enum.auto()
    SPLIT = enum.auto()
    RETRY_REFUSED = enum.auto()  # not appended by this attempt
    RETRY_UNCERTAIN = enum.auto()  # perhaps appended
    RETRY_OUT_OF_SEQUENCE = enum.auto()  # not in the log, and not next
    FAILED = enum.auto()


SAYS_METADATA_IS_STALE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which metadata is asked for again."""

_OUT_OF_SEQUENCE: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
_APPENDED_BY_THE_LEADER: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def judge(code: ErrorCode, *, record_count: int, is_idempotent: bool, may_retry: bool) -> Verdict:
    """The verdict over a batch of `record_count` records answered with `code`; `may_retry` unless `retries` are used up.

    A splitting batch uses up no retry: it gets smaller every time.
    """
    # A duplicate too old for the broker to remember its offset is in the log all the same.
    if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
        return Verdict.ACKNOWLEDGED
    if code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE} and record_count > 1:
        return Verdict.SPLIT
    if not may_retry:
        return Verdict.FAILED
    if code in _OUT_OF_SEQUENCE and is_idempotent:
        return Verdict.RETRY_OUT_OF_SEQUENCE
    if code in _APPENDED_BY_THE_LEADER:
        return Verdict.RETRY_UNCERTAIN
    return Verdict.RETRY_REFUSED if code.is_retriable else Verdict.FAILED

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

SAYS_NUMBERS_ARE_WRONG: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""Errors of the sequence check: the batch is not in the log, and not next."""

# Said before anything is written. All else may be said of a batch that waits in the log for its followers: a leader that is deposed answers
# NOT_LEADER_OR_FOLLOWER to it, and the next leader may have it.
_NOT_APPENDED: Final = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE, ErrorCode.CONCURRENT_TRANSACTIONS}
)


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
    if code in SAYS_NUMBERS_ARE_WRONG and is_idempotent:
        return Verdict.RETRY_OUT_OF_SEQUENCE
    if not code.is_retriable:
        return Verdict.FAILED
    return Verdict.RETRY_REFUSED if code in _NOT_APPENDED else Verdict.RETRY_UNCERTAIN

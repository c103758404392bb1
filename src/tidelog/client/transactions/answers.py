"""What a coordinator's answer means for the transaction. Pure."""

from __future__ import annotations

import enum
from typing import Final

from tidelog.model import ErrorCode


class Meaning(enum.Enum):
    """What to do next."""

    DONE = enum.auto()
    ASK_AGAIN = enum.auto()
    ASK_AGAIN_SOON = enum.auto()  # the transaction before is being ended
    ASK_ELSEWHERE = enum.auto()  # another broker coordinates by now
    ABORT = enum.auto()
    RENEW = enum.auto()  # abort, but there is nothing to end: the coordinator has forgotten the producer
    FENCED = enum.auto()
    REFUSED = enum.auto()

    @property
    def is_final(self) -> bool:
        """Whether asking again would bring no other answer."""
        return self not in {Meaning.ASK_AGAIN, Meaning.ASK_AGAIN_SOON, Meaning.ASK_ELSEWHERE}


_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# Of the topics, the group or its member, not of the producer: another transaction may fare better.
_CONCERNS_THIS_TRANSACTION: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
# Said of a produced batch, these leave the producer no way to go on; whatever else is, can be aborted.
_FATAL_FOR_A_BATCH: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def meaning_of(code: ErrorCode) -> Meaning:
    """What a coordinator, of the transaction or of the group, says by this code."""
    if code is ErrorCode.NONE:
        return Meaning.DONE
    if code in _ELSEWHERE:
        return Meaning.ASK_ELSEWHERE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return Meaning.ASK_AGAIN_SOON
    if code in _FENCED:
        return Meaning.FENCED
    if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return Meaning.RENEW
    if code in _CONCERNS_THIS_TRANSACTION:
        return Meaning.ABORT
    return Meaning.ASK_AGAIN if code.is_retriable else Meaning.REFUSED


def meaning_for_batch(code: ErrorCode) -> Meaning:
    """What it means for the transaction that a batch was refused for good. An epoch that is too low may be our own late mail's."""
    if code is ErrorCode.PRODUCER_FENCED:
        return Meaning.FENCED
    if code in _FATAL_FOR_A_BATCH:
        return Meaning.REFUSED
    return Meaning.RENEW if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING else Meaning.ABORT


def worst(codes: list[ErrorCode]) -> ErrorCode:
    """The code that decides about an answer of many: what is final before what may pass; OPERATION_NOT_ATTEMPTED never before its reason."""

    def rank(code: ErrorCode) -> int:
        if code is ErrorCode.NONE:
            return 3
        if not meaning_of(code).is_final:
            return 2
        return 1 if code is ErrorCode.OPERATION_NOT_ATTEMPTED else 0

    return min(codes, key=rank, default=ErrorCode.NONE)

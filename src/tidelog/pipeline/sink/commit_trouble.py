"""What a failure of the client means for a commit: whether it may pass, and how to say it."""

from __future__ import annotations

from typing import Final

from tidelog.client import (
    ClientError,
    CommitFailed,
    ProduceFailed,
    ProducerFenced,
    RecordTooLarge,
    RequestRefused,
    TopicUnavailable,
    TransactionFailed,
    UnsupportedApi,
    WrongUse,
)
from tidelog.model import ErrorCode
from tidelog.pipeline.sink.options import SinkSettings

_GONE: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
_NEVER: Final = (RecordTooLarge, TopicUnavailable, UnsupportedApi, WrongUse)


def may_pass(error: ClientError) -> bool:
    """Whether the same may go well in a while."""
    reason = reason_of(error)
    match reason:
        case ProduceFailed() | RequestRefused():
            return reason.code.is_retriable
        case CommitFailed():
            return all(code.is_retriable for code in reason.codes.values())
        case _:
            return not isinstance(reason, _NEVER)


def is_fence(error: ClientError) -> bool:
    """Whether a broker has refused us for somebody who came after us; leaders say it of a batch, without knowing who it was."""
    reason = reason_of(error)
    return isinstance(reason, ProducerFenced) or (
        isinstance(reason, ProduceFailed)
        and reason.code in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
    )


def may_mean_timeout(error: ClientError) -> bool:
    """Whether brokers say this, among others, to whom they have aborted a transaction because its time was up."""
    reason = reason_of(error)
    match reason:
        case TransactionFailed():  # the coordinator knows nothing of it any more
            return True
        case ProduceFailed() | RequestRefused():
            return is_fence(error) or reason.code in _GONE
        case CommitFailed():
            return not _GONE.isdisjoint(reason.codes.values())
        case _:
            return is_fence(error)


def took_too_long(settings: SinkSettings, open_ms: float) -> str | None:
    """What to do about a transaction that was open for so long, if that was longer than brokers leave any open."""
    timeout_ms = settings.producer_config().transaction_timeout_ms
    if open_ms <= timeout_ms:
        return None
    smaller = (
        "write less in one job"
        if settings.checkpoint is None
        else "make micro-batches smaller, by the option maxOffsetsPerTrigger of the source"
    )
    return (
        f"the transaction was open for {open_ms / 1000:.1f} s, and brokers abort what is open for longer than "
        f"kafka.transaction.timeout.ms={timeout_ms}: raise that, up to transaction.max.timeout.ms of the brokers, or {smaller}"
    )


def reason_of(error: ClientError) -> ClientError:
    """What a transaction failed of, if it says so."""
    while isinstance(error, TransactionFailed) and isinstance(error.__cause__, ClientError):
        error = error.__cause__
    return error


def explained(error: ClientError, settings: SinkSettings) -> str:
    """What went wrong, and what to do about it where that is known."""
    reason = reason_of(error)
    said = f"sink {settings.sink_id!r} could not commit: {reason}"
    advice = _advice(reason, settings)
    return f"{said} ({advice})" if advice else said


def group_is_taken(settings: SinkSettings) -> str:
    """What to do where others are members of the group as which the query is to appear."""
    return f"group {settings.offsets_group!r} has members: set the option offsets.group to a name of its own"


def _advice(reason: ClientError, settings: SinkSettings) -> str | None:
    match reason:
        case RequestRefused(code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
            timeout_ms = settings.properties["transaction.timeout.ms"]
            return f"kafka.transaction.timeout.ms={timeout_ms} is more than transaction.max.timeout.ms of the brokers"
        case CommitFailed(codes=codes) if ErrorCode.UNKNOWN_MEMBER_ID in codes.values():
            return group_is_taken(settings)
        case ProduceFailed(code=ErrorCode.MESSAGE_TOO_LARGE):
            return "a row is larger than max.message.bytes of its topic"
        case ProduceFailed(code=ErrorCode.INVALID_RECORD):
            return "a compacted topic takes no rows without a key"
        case RecordTooLarge():
            return "raise kafka.max.request.size and kafka.buffer.memory, and max.message.bytes of the topic"
        case _:
            return None

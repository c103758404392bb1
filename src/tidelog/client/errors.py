"""What can go wrong for a user of the client, one type per thing a caller may want to tell apart."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model import ErrorCode, Offset, TopicPartition
from tidelog.runtime import Address


class ClientError(Exception):
    """Whatever the client could not do; never raised itself."""


class ClientClosed(ClientError):
    """The producer, consumer or cluster was closed while, or before, the work was asked for."""


class ConnectionLost(ClientError):
    """The connection ended with requests unanswered: the broker may or may not have acted on them."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"connection to {address} lost: {reason}")
        self.address = address
        self.reason = reason


class RequestTimedOut(ConnectionLost):
    """No answer came within request.timeout.ms; the connection is closed, since later answers would queue behind it."""


class UnsupportedApi(ClientError):
    """The broker and we have no version of this API in common."""


class BrokersUnreachable(ClientError):
    """No broker answered in time; says what the last attempt ran into."""


class RequestRefused(ClientError):
    """The cluster refused a request as a whole."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"the cluster refused: {code.name}" + (f": {message}" if message else ""))
        self.code = code
        self.message = message


class GroupRefused(RequestRefused):
    """The coordinator will not have this consumer in its group, for a reason that joining again does not cure."""


class CommitFailed(ClientError):
    """Offsets were not committed. `codes` says why for each partition that was refused; none where nobody answered in time.

    A member that was put out of its group, or is to rebalance, commits nothing: others may have read on from an older offset.
    """

    def __init__(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        refused = ", ".join(f"{topic_partition}: {code.name}" for topic_partition, code in codes.items())
        super().__init__(f"offsets were not committed: {refused or 'no answer in time'}")
        self.codes = dict(codes)


class WrongUse(ClientError):
    """The call makes no sense here and now: there is no group.id, or no transactional.id, or no transaction to commit."""


class TopicUnavailable(ClientError):
    """Metadata of the topic did not become usable in time."""

    def __init__(self, topic: str, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"topic {topic!r} is not available: {code.name}" + (f": {message}" if message else ""))
        self.topic = topic
        self.code = code


class ProduceFailed(ClientError):
    """The broker refused the records for good."""

    def __init__(self, topic_partition: TopicPartition, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"produce to {topic_partition} failed: {code.name}" + (f": {message}" if message else ""))
        self.topic_partition = topic_partition
        self.code = code
        self.message = message


class ProducerRefused(ClientError):
    """The cluster will not give this producer an id, without which idempotence is impossible (enable.idempotence=false goes without)."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"the cluster refused a producer id: {code.name}")
        self.code = code


class ProducerFenced(ClientError):
    """Another producer has taken over the transactional.id, or its transaction timed out: nothing this one does counts any more."""


class TransactionFailed(ClientError):
    """Something in the transaction went wrong, and `__cause__` says what: it can only be aborted. The producer can go on after that."""


class TransactionAborted(ClientError):
    """The record was not acknowledged when its transaction was aborted, and will not be seen by readers of committed records."""


class TransactionPending(ClientError):
    """The coordinator gave no answer in time. What becomes of the transaction is not known: make the same call again to learn it."""


class TransactionRefused(RequestRefused):
    """The coordinator refuses for a reason that no abort cures; this producer is of no use any more."""


class DeliveryTimeout(ClientError):
    """delivery.timeout.ms passed without an acknowledgement; the records may or may not be in the log."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        record_count: int,
        waited_ms: float,
        attempts: int,
        cause: str | None = None,
    ) -> None:
        super().__init__(
            f"{record_count} record(s) for {topic_partition} not acknowledged {waited_ms:.0f} ms after send, "
            f"in {attempts} attempt(s){'' if cause is None else f': {cause}'}"
        )
        self.topic_partition = topic_partition


class RecordTooLarge(ClientError):
    """A single record is larger than max.request.size or buffer.memory can hold."""

    def __init__(self, *, size_bytes: int, setting: str, limit_bytes: int) -> None:
        super().__init__(f"record of about {size_bytes} bytes is larger than {setting}={limit_bytes}")
        self.size_bytes = size_bytes


class BufferExhausted(ClientError):
    """buffer.memory stayed full for max.block.ms."""


class FetchFailed(ClientError):
    """The broker refused to serve a partition, for a reason that waiting does not cure."""

    def __init__(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        super().__init__(f"fetch from {topic_partition} failed: {code.name}")
        self.topic_partition = topic_partition
        self.code = code


class OffsetOutOfRange(FetchFailed):
    """The position is not in the log and auto.offset.reset is `none`."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset) -> None:
        super().__init__(topic_partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.args = (f"offset {offset} of {topic_partition} is out of range and auto.offset.reset is none",)
        self.offset = offset


class LogTruncated(FetchFailed):
    """Records that were handed out are in the log no more (an unclean election), and auto.offset.reset is `none`.

    `offset` is where the consumer stood, `divergent_offset` the first offset that is not as it read it, where that is known: seek there
    to go on.
    """

    def __init__(self, topic_partition: TopicPartition, offset: Offset, divergent_offset: Offset | None) -> None:
        super().__init__(topic_partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        where = "nobody knows from where on" if divergent_offset is None else f"from offset {divergent_offset} on"
        self.args = (f"log of {topic_partition} was cut {where}, and it had been read up to offset {offset}",)
        self.offset = offset
        self.divergent_offset = divergent_offset


class CorruptRecords(ClientError):
    """A fetched batch cannot be read. `offset` is its first; seek to `next_offset`, where it is known, to go on without the batch."""

    def __init__(
        self, topic_partition: TopicPartition, offset: Offset, reason: str, *, next_offset: Offset | None = None
    ) -> None:
        super().__init__(f"corrupt record batch in {topic_partition} at offset {offset}: {reason}")
        self.topic_partition = topic_partition
        self.offset = offset
        self.next_offset = next_offset


class NoPosition(ClientError):
    """The partition is not assigned to this consumer, or a position could not be found in time."""

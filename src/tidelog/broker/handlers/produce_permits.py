"""What a Produce request with a transactional id may append (KIP-890).

A partition in which the transaction is open takes further batches without a word. For others the coordinator is asked, with a guard of the
log (`storage.verification`): up to version 11 whether the producer has added the partition, from version 12 on to add it.

What the producer hears: INVALID_TXN_STATE where the partition is not part of the transaction (TRANSACTION_ABORTABLE from version 11 on,
which says what to do), INVALID_PRODUCER_EPOCH where it was fenced, INVALID_PRODUCER_ID_MAPPING where the transactional id is another's,
and NOT_ENOUGH_REPLICAS where the coordinator could not say, since every client sends such a batch again without looking for another leader;
from version 12 on CONCURRENT_TRANSACTIONS while the transaction before is ending. TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a batch of a
transaction in a request without a transactional id.

Older clients give all transactions of a session the same epoch, so a batch that was long under way could get into a later one. What they
resend they send by a new connection: once that has brought anything, whatever the older one brings is refused, with NOT_ENOUGH_REPLICAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.partition import Partition
from tidelog.records.batch import TRANSACTIONAL_BIT, BatchHeader, CorruptBatch, read_header
from tidelog.runtime.disk import Buffer
from tidelog.server import RequestContext
from tidelog.storage import Guard
from tidelog.wire.messages.produce import ProduceRequest

_ABORTABLE_FROM: Final = 11
_LEADER_ADDS_FROM: Final = 12
_ATTRIBUTES_AT: Final = 22  # The lower byte.

_NOT_PART: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
_UNDECIDED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        # We lead the partition, so the coordinator was not told of it yet; what was asked with it was not looked at.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


class _Unverified(NamedTuple):
    """A partition in which the transaction is not open yet."""

    key: TopicPartition
    partition: Partition
    sequence: int


class _Asked(NamedTuple):
    """A partition that the coordinator is asked about."""

    partition: Partition
    guard: Guard


@dataclass(slots=True)
class Permits:
    """What is known of the partitions of one request."""

    node: Node
    context: RequestContext
    transactional_id: str
    producer: ProducerIdentity | None = None
    unverified: list[_Unverified] = field(default_factory=list)
    asked: dict[TopicPartition, _Asked] = field(default_factory=dict)
    refusals: dict[TopicPartition, ApiError] = field(default_factory=dict)
    lost_cause: ApiError | None = None  # Why nothing of the request that belongs to a transaction can be appended.

    @property
    def must_ask(self) -> bool:
        """Whether `ask` has anything to do before `guard_of` can say something."""
        return bool(self.unverified)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the guards back when the block is left; the log keeps those that it may need again."""
        try:
            yield
        finally:
            for key, (partition, guard) in self.asked.items():
                refusal = self.refusals.get(key)
                is_refused = refusal is not None and refusal.code not in _RETRIED
                partition.log.verification.release(guard, is_refused=is_refused)

    def begin(self) -> None:
        """Take guards, in use until the coordinator was asked and everything was appended that it allows."""
        if self.producer is None:
            return
        has_own_epoch = self.context.version >= _LEADER_ADDS_FROM
        for key, partition, sequence in self.unverified:
            if key in self.asked:
                continue
            try:
                guard = partition.begin_verification(self.producer, sequence=sequence, has_own_epoch=has_own_epoch)
            except ApiError:
                continue  # Whoever appends says so.
            if guard is not None:
                self.asked[key] = _Asked(partition, guard)

    async def ask(self) -> None:
        """Have the coordinator say what it knows."""
        leader_adds = self.context.version >= _LEADER_ADDS_FROM
        membership = self.node.membership
        if self.producer is None or not self.asked or not (leader_adds or membership.is_verifying):
            return
        codes = await membership.check(
            self.transactional_id, self.producer, list(self.asked), is_verification=not leader_adds
        )
        for key, code in codes.items():
            if code is not ErrorCode.NONE:
                self.refusals[key] = _refusal(code, self.context.version)

    def guard_of(self, key: TopicPartition) -> Guard | None:
        """What a batch of a transaction is to be appended with; None where the log needs none. Raises ApiError."""
        if self.lost_cause is not None:
            raise self.lost_cause
        refusal = self.refusals.get(key)
        if refusal is not None:
            raise refusal
        self.check_not_late()  # Something newer may have come while the coordinator was asked.
        asked = self.asked.get(key)
        return None if asked is None else asked.guard

    def check_not_late(self) -> None:
        """Refuse what an older connection brings, of clients whose transactions share an epoch. Raises ApiError.

        By whatever listener: brokers send no Produce, and in many clusters clients use the one that brokers use, too.
        """
        context = self.context
        if self.producer is None or context.version >= _LEADER_ADDS_FROM:
            return
        if not self.node.membership.batch_order.is_in_order(self.producer, context.connection):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "a later connection of this producer has brought something before"
            )


_RETRIED: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS})


def permits_of(node: Node, context: RequestContext, request: ProduceRequest) -> Permits:
    """Look at all batches of a request; where the coordinator must be asked, nothing may be appended before `ask`."""
    permits = Permits(node, context, request.transactional_id or "")
    batches: list[tuple[TopicPartition, int]] = []
    producers: dict[ProducerIdentity, None] = {}
    for topic in request.topic_data:
        try:
            name = node.metadata.topic_name(topic.name, topic.topic_id)
        except ApiError:
            continue  # Whoever appends says so.
        for data in topic.partition_data:
            header = _header_of(data.records or b"")
            if header is not None and header.producer_id >= 0:
                producers[ProducerIdentity(header.producer_id, header.producer_epoch)] = None
                batches.append((TopicPartition(name, data.index), header.base_sequence))
    if len(producers) > 1:
        permits.lost_cause = ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of several producers in one transaction"
        )
    elif producers:
        (permits.producer,) = producers
        _look(permits, permits.producer, batches)
    return permits


def _header_of(records: Buffer) -> BatchHeader | None:
    """What a batch of a transaction says; None where it is none, or not a batch at all."""
    if not is_transactional(records):
        return None
    try:
        return read_header(records)
    except CorruptBatch:
        return None  # Whoever appends says so.


def _look(permits: Permits, producer: ProducerIdentity, batches: list[tuple[TopicPartition, int]]) -> None:
    """See in which partitions the transaction is not open yet."""
    try:
        permits.check_not_late()
    except ApiError as error:
        permits.lost_cause = error
        return
    for key, sequence in batches:
        if key.topic in INTERNAL_TOPICS:
            continue
        try:
            partition = permits.node.replicas.partition(key)
        except ApiError:
            continue  # Whoever appends says so.
        known = partition.log.producers.get(producer.producer_id)
        if known is None or not known.is_in_transaction(producer.producer_epoch):
            permits.unverified.append(_Unverified(key, partition, sequence))


def permission_of(permits: Permits | None, key: TopicPartition) -> Guard | None:
    """What a batch of a transaction is to be appended with. Raises ApiError."""
    if permits is None:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch of a transaction without a transactional id"
        )
    return permits.guard_of(key)


def is_transactional(records: Buffer) -> bool:
    """Whether a batch, which nobody has looked at yet, says that it belongs to a transaction."""
    return len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT)


def _refusal(code: ErrorCode, version: int) -> ApiError:
    """What a producer understands, of what the coordinator says to brokers."""
    if code in _NOT_PART:
        is_named = version >= _ABORTABLE_FROM
        known = ErrorCode.TRANSACTION_ABORTABLE if is_named else ErrorCode.INVALID_TXN_STATE
        return ApiError(known, "the partition is not part of the transaction")
    if code is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, "the coordinator knows a later epoch of the producer")
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= _LEADER_ADDS_FROM:
        return ApiError(code, "the transaction before is ending")
    if code in _UNDECIDED:
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the coordinator of the transaction could not say: {code.name}")
    return ApiError(code)

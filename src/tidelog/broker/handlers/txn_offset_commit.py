"""TxnOffsetCommit, versions 0 to 5.

Behaviour: partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; the offsets of all others are written together, into the transaction
of the producer, by the coordinator of the group. Before that the coordinator of the transaction is asked whether the group's partition of
`__consumer_offsets` is part of it, or from v5 on is told to add it; where a transaction is open there already nobody need be asked. What is
not part of it, or whose transaction has ended meanwhile, is refused: INVALID_TXN_STATE, from v4 on TRANSACTION_ABORTABLE.

v1: throttling moves to the client (KIP-219).  v2: leader epoch (KIP-320).  v3: flexible; member, generation, instance id (KIP-447).
v4: TRANSACTION_ABORTABLE (KIP-890).  v5: adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.broker.handlers.group_requests import PARTITIONS_PER_SLICE, settled
from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.node import Node
from tidelog.controller import TopicImage
from tidelog.model import ApiError, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.partition import Partition
from tidelog.server import RequestContext
from tidelog.storage import Guard
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API = ApiKey.TXN_OFFSET_COMMIT

_ADDS_SINCE: Final = 5


async def handle(node: Node, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Refuse what does not exist, and let the coordinator commit the rest."""
    topics: dict[str, _Topic] = {}
    seen = 0
    for asked in request.topics:
        topic = topics.get(asked.name)
        if topic is None:
            topic = topics[asked.name] = _Topic(node.metadata.topic(asked.name))
        for partition in asked.partitions:
            topic.take(partition)
            seen += 1
            if seen % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
    known = tuple(
        TxnOffsetCommitRequestTopic(name=name, partitions=tuple(topic.known.values()))
        for name, topic in topics.items()
        if topic.known
    )
    if known:
        answer = await _commit(node, context, replace(request, topics=known))
        for committed in answer.topics:
            topics[committed.name].results += committed.partitions
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(name=name, partitions=tuple(topic.results)) for name, topic in topics.items()
        )
    )


class _Topic:
    """One topic of a request: what exists of it, and what became of its partitions. Of a partition named twice the last offset counts."""

    def __init__(self, found: TopicImage | None) -> None:
        self._found = found
        self.known: dict[int, TxnOffsetCommitRequestPartition] = {}
        self.results: list[TxnOffsetCommitResponsePartition] = []

    def take(self, partition: TxnOffsetCommitRequestPartition) -> None:
        """One partition more: it is known, or refused."""
        index = partition.partition_index
        if self._found is not None and index in self._found.partitions:
            self.known[index] = partition
            return
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.results.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=unknown))


async def _commit(node: Node, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    index = node.groups.locate(request.group_id)
    is_to_be_asked = node.membership.is_verifying or context.version >= _ADDS_SINCE
    if index is None or not request.group_id or not is_to_be_asked:
        return await settled(node.groups.ask(request.group_id, request, context))
    joining = _Joining(node, context, request, TopicPartition(GROUPS_TOPIC, index))
    try:
        joining.check_not_late()
        partition = replica_of(node, joining.key)
        guard = partition.begin_verification(joining.producer, sequence=0, has_own_epoch=not joining.is_verification)
        if guard is None:
            answer = node.groups.ask(request.group_id, request, context)
        else:
            answer = await joining.ask(partition, guard)
    except ApiError as error:
        return node.groups.refusal(request, context, error.code)
    return await settled(answer)


class _Joining(NamedTuple):
    """A commit whose transaction may not be open yet in the partition of its group."""

    node: Node
    context: RequestContext
    request: TxnOffsetCommitRequest
    key: TopicPartition

    @property
    def producer(self) -> ProducerIdentity:
        """Who commits."""
        return ProducerIdentity(self.request.producer_id, self.request.producer_epoch)

    @property
    def is_verification(self) -> bool:
        """Whether the producer adds the group to its transaction itself."""
        return self.context.version < _ADDS_SINCE

    def check_not_late(self) -> None:
        """Refuse what an older connection brings, of clients whose transactions share an epoch. Raises ApiError."""
        if not self.is_verification:
            return
        if not self.node.groups.mail_order.is_in_order(self.producer, self.context.connection):
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS, "a later connection of this producer has brought something before"
            )

    async def ask(
        self, partition: Partition, guard: Guard
    ) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
        """Have the coordinator of the transaction say that the partition belongs to it, then commit. Raises ApiError."""
        node, request, reign = self.node, self.request, partition.reign
        is_refused = False
        try:
            codes = await node.membership.check(
                request.transactional_id, self.producer, [self.key], is_verification=self.is_verification
            )
            code = codes[self.key]
            if code is not ErrorCode.NONE:
                is_refused = not code.is_retriable
                raise ApiError(code, "said the coordinator of the transaction")
            partition.check_reign(reign)
            self.check_not_late()  # Something newer may have come while the coordinator was asked.
            self._check_held(partition, guard)
            # In the same step, so that no marker comes in between.
            return node.groups.ask(request.group_id, request, self.context)
        finally:
            partition.log.verification.release(guard, is_refused=is_refused)

    def _check_held(self, partition: Partition, guard: Guard) -> None:
        """Whether what the coordinator said still counts: no marker has come since, or another request of the transaction was faster."""
        known = partition.log.producers.get(self.request.producer_id)
        is_open = known is not None and known.is_in_transaction(self.request.producer_epoch)
        if not is_open and not partition.log.verification.is_current(guard):
            raise ApiError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction has ended meanwhile")

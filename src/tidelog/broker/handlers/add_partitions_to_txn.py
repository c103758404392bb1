"""AddPartitionsToTxn, versions 0 to 5.

Behaviour: partitions become part of a producer's transaction before it writes there; its coordinator notes them. All or none: where one is
unknown, the others are OPERATION_NOT_ATTEMPTED. Clients send versions up to 3, for one transaction, and may not name internal topics:
TOPIC_AUTHORIZATION_FAILED. Leaders send the others, for several, on behalf of producers that leave it to them (KIP-890); they also only ask
whether partitions are part of a transaction.

v1: throttling moves to the client (KIP-219).  v2: PRODUCER_FENCED (KIP-588).  v3: flexible.  v4: several transactions, and verification
(KIP-890).  v5: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.handlers.transaction_requests import in_slices, in_version
from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.coordinator.transaction.requests import JoinRequest
from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

API = ApiKey.ADD_PARTITIONS_TO_TXN

_FENCED_SINCE: Final = 2
_BATCHED_SINCE: Final = 4


async def handle(node: Node, context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Check the topics, and ask the coordinator of each transaction."""
    if context.version < _BATCHED_SINCE:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _answer(node, context, asked))

    async def answer(asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        results = await _answer(node, context, asked)
        return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=results)

    return AddPartitionsToTxnResponse(results_by_transaction=await ask_each(request.transactions, answer))


async def _answer(
    node: Node, context: RequestContext, asked: AddPartitionsToTxnTransaction
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    codes = await _join(node, context, asked)
    rows: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    async for topic_partition, code in in_slices(codes.items()):
        row = AddPartitionsToTxnPartitionResult(
            partition_index=topic_partition.index,
            partition_error_code=in_version(code, context.version, fenced_since=_FENCED_SINCE),
        )
        rows.setdefault(topic_partition.topic, []).append(row)
    return tuple(
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=tuple(of_topic))
        for name, of_topic in rows.items()
    )


async def _join(
    node: Node, context: RequestContext, asked: AddPartitionsToTxnTransaction
) -> Mapping[TopicPartition, ErrorCode]:
    is_of_client = context.version < _BATCHED_SINCE
    partitions, wrong = await _checked(node, asked, is_of_client=is_of_client)
    if not asked.transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    if wrong:
        return {**dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED), **wrong}
    if not partitions:
        return {}
    request = JoinRequest(
        transactional_id=asked.transactional_id,
        producer=ProducerIdentity(asked.producer_id, asked.producer_epoch),
        partitions=tuple(partitions),
        is_verification=asked.verify_only,
        client_version=TransactionVersion.ZERO if is_of_client else TransactionVersion.TWO,
    )
    answer = await settled(node.transactions.join(request, context.connection if is_of_client else 0))
    return answer.codes


async def _checked(
    node: Node, asked: AddPartitionsToTxnTransaction, *, is_of_client: bool
) -> tuple[dict[TopicPartition, None], dict[TopicPartition, ErrorCode]]:
    """The partitions, each once; and those that cannot become part of a transaction, with the reason."""
    partitions: dict[TopicPartition, None] = {}
    wrong: dict[TopicPartition, ErrorCode] = {}
    named = ((of_topic.name, index) for of_topic in asked.topics for index in of_topic.partitions)
    async for topic, index in in_slices(named):
        topic_partition = TopicPartition(topic, index)
        partitions[topic_partition] = None
        image = node.metadata.topic(topic)
        if is_of_client and topic in INTERNAL_TOPICS:
            wrong[topic_partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image is None or index not in image.partitions:
            wrong[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return partitions, wrong

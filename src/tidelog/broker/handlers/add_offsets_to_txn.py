"""AddOffsetsToTxn, versions 0 to 4.

Behaviour: the partition of `__consumer_offsets` that holds a group becomes part of a producer's transaction, before it commits offsets of the
group in it. While that topic is not there, it is made, and the answer is COORDINATOR_NOT_AVAILABLE.

v1: throttling moves to the client (KIP-219).  v2: PRODUCER_FENCED (KIP-588).  v3: flexible.  v4: TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.handlers.group_requests import settled
from tidelog.broker.handlers.transaction_requests import in_version
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.node import Node
from tidelog.coordinator.transaction.requests import JoinRequest
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API = ApiKey.ADD_OFFSETS_TO_TXN

_FENCED_SINCE: Final = 2


async def handle(node: Node, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Find the group's partition, and ask the coordinator of the transaction."""
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    index = node.groups.locate(request.group_id)
    if index is None:
        node.internal_topics.want_groups()
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    place = TopicPartition(GROUPS_TOPIC, index)
    joining = JoinRequest(
        transactional_id=request.transactional_id,
        producer=ProducerIdentity(request.producer_id, request.producer_epoch),
        partitions=(place,),
    )
    answer = await settled(node.transactions.join(joining, context.connection))
    code = in_version(answer.codes[place], context.version, fenced_since=_FENCED_SINCE)
    return AddOffsetsToTxnResponse(error_code=code)

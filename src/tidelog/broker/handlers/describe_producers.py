"""DescribeProducers, version 0 (KIP-664).

Behaviour: the idempotent and transactional producers that the log of each partition remembers, with the start of an open transaction;
that is how an operator finds a transaction that hangs. Served by the leader.
"""

from __future__ import annotations

from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.node import Node
from tidelog.controller import check_name
from tidelog.model import NO_LEADER_EPOCH, ApiError, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

API = ApiKey.DESCRIBE_PRODUCERS


def handle(node: Node, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Look at every partition by itself."""
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_partition(node, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _partition(node: Node, topic: str, index: int) -> PartitionResponse:
    try:
        check_name(topic)
        replica = replica_of(node, TopicPartition(topic, index))
        replica.check_leader_epoch(NO_LEADER_EPOCH)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=tuple(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in replica.log.active_producers()
        ),
    )

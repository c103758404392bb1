"""Between what an admin says of transactions and what goes over the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.client.admin_transaction_values import STATES, TransactionDescription
from tidelog.model import BrokerId, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.wire.messages import describe_transactions
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_BY_LOWER_CASE: Final = {state.lower(): state for state in STATES}


def states_named(names: Iterable[str]) -> tuple[str, ...]:
    """States as brokers spell them, however they were written; what is no state stays as it is."""
    return tuple(_BY_LOWER_CASE.get(name.lower(), name) for name in names)


def described(row: describe_transactions.TransactionState, coordinator: BrokerId) -> TransactionDescription:
    """A transactional id as its coordinator described it."""
    return TransactionDescription(
        transactional_id=row.transactional_id,
        coordinator=coordinator,
        state=row.transaction_state,
        timeout_ms=row.transaction_timeout_ms,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_ms=row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        partitions=tuple(
            sorted(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions)
        ),
    )


def fencing(transactional_id: str, timeout_ms: int) -> InitProducerIdRequest:
    """The request of a new incarnation, which ends whatever the one before it has open."""
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def aborting(key: TopicPartition, producer: ProducerIdentity, coordinator_epoch: int) -> WriteTxnMarkersRequest:
    """What a coordinator would tell the leader of a partition. The epoch may be the one the transaction was written under."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=key.topic, partition_indexes=(key.index,)),),
        coordinator_epoch=max(coordinator_epoch, 0),  # a partition that has seen no marker of the producer knows none
    )
    return WriteTxnMarkersRequest(markers=(marker,))


def codes_in(answer: WriteTxnMarkersResponse) -> dict[TopicPartition, ErrorCode]:
    """What became of each marker."""
    return {
        TopicPartition(topic.name, row.partition_index): row.error_code
        for marker in answer.markers
        for topic in marker.topics
        for row in topic.partitions
    }

"""WriteTxnMarkers, versions 1 to 2.

Behaviour: the coordinator of a transaction tells the leaders of its partitions how it ended, and each writes that down as a marker with
acks=all; an administrator may end a transaction that its coordinator has lost in the same way (KIP-664). Markers for `__consumer_offsets`
go through the groups of the partition, whose pending offsets count from then on or are forgotten.

Per producer and partition: NONE once the high watermark has passed the marker, REQUEST_TIMED_OUT or NOT_LEADER_OR_FOLLOWER if that took too
long, INVALID_PRODUCER_EPOCH where the log has met a later epoch of the producer, TRANSACTION_COORDINATOR_FENCED where it has met a later
coordinator, and what any append may say. A partition of which the log knows nothing gets its marker all the same, since it keeps late
records out. Markers with an epoch of their own (transaction version 2) may be told as often as needed: they are written once, and never end
the transaction after the one they are for (KIP-1228). Of others a leader only knows by which connection they came: once a broker has said
something of a producer by a later one, what an earlier one still brings is refused with NOT_ENOUGH_REPLICAS, and told again if need be.

v1: flexible.  v2: the transaction version (KIP-1228).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tidelog.broker.handlers.hosting import elsewhere
from tidelog.broker.handlers.settlement import Settlement, until_settled
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.node import Node
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import Acks, ApiError, ErrorCode, Offset, ProducerIdentity, TopicPartition
from tidelog.partition import Partition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

API = ApiKey.WRITE_TXN_MARKERS
_MARKERS_BETWEEN_LOOKS: Final = 25
"""Some half a millisecond: whoever waits for a commit, or for our core, is not to wait for all markers of another."""


@dataclass(slots=True, kw_only=True)
class _Written(Settlement):
    """A marker in one partition."""

    key: TopicPartition
    code: ErrorCode = ErrorCode.NONE

    def note_failure(self, code: ErrorCode) -> None:
        """The coordinator tells it again, or knows why it need not."""
        self.code = code


async def handle(node: Node, context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write all markers, then answer when the slowest is safe."""
    return await _write_all(node, request, context)


async def write(node: Node, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """The same for a coordinator on this broker."""
    return await _write_all(node, request, None)


async def _write_all(
    node: Node, request: WriteTxnMarkersRequest, context: RequestContext | None
) -> WriteTxnMarkersResponse:
    outcomes: list[tuple[WritableTxnMarker, list[_Written]]] = []
    count = 0
    for marker in request.markers:
        written: list[_Written] = []
        outcomes.append((marker, written))
        is_late = _is_late(node, marker, context)
        for topic in marker.topics:
            for index in topic.partition_indexes:
                key = TopicPartition(topic.name, index)
                late = _Written(key=key, code=ErrorCode.NOT_ENOUGH_REPLICAS)
                written.append(late if is_late else _write(node, key, _end(marker)))
                count += 1
                if count % _MARKERS_BETWEEN_LOOKS == 0:
                    await asyncio.sleep(0)
                    node.runtime.clock.give_way()
    waiting = [one for _, written in outcomes for one in written if not one.is_settled(Acks.ALL)]
    if waiting:
        await until_settled(node, waiting, Acks.ALL, timeout_ms=node.config.request_timeout_ms)
    return WriteTxnMarkersResponse(markers=tuple(_result(marker, written) for marker, written in outcomes))


def _is_late(node: Node, marker: WritableTxnMarker, context: RequestContext | None) -> bool:
    """Whether a broker has sent something later of a producer whose transactions share an epoch."""
    if context is None or not node.is_inter_broker(context.listener):
        return False
    if marker.transaction_version >= TransactionVersion.TWO:
        return False
    sender = marker.producer_id, context.client_id
    return not node.membership.marker_order.is_in_order(sender, context.connection)


def _end(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        ProducerIdentity(marker.producer_id, marker.producer_epoch),
        is_committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        has_own_epoch=marker.transaction_version >= TransactionVersion.TWO,
    )


def _write(node: Node, key: TopicPartition, end: TransactionEnd) -> _Written:
    try:
        if end.producer.producer_id < 0 or end.producer.producer_epoch < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a marker of no producer")
        partition, offset = _append(node, key, end)
    except ApiError as error:
        return _Written(key=key, code=elsewhere(node, key, error).code)
    return _Written(key=key, partition=partition, reign=partition.reign, next_offset=offset + 1)


def _append(node: Node, key: TopicPartition, end: TransactionEnd) -> tuple[Partition, Offset]:
    if key.topic == GROUPS_TOPIC:
        partition = node.replicas.partition(key)
        return partition, node.groups.end_transaction(key.index, end)
    partition, appended = node.replicas.append_marker(key, end)
    return partition, appended.last_offset


def _result(marker: WritableTxnMarker, written: list[_Written]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {topic.name: [] for topic in marker.topics}
    for one in written:
        row = WritableTxnMarkerPartitionResult(partition_index=one.key.index, error_code=one.code)
        topics[one.key.topic].append(row)
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
    )

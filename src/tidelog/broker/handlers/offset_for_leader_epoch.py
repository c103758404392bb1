"""OffsetForLeaderEpoch, versions 2 to 4.

Behaviour: the largest leader epoch of the log that is not above the one asked for, and where its records end. A reader whose position
lies beyond that end has read records that were cut away since. (-1, -1) without an error says that the log knows nothing of the epoch.

FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH where the reader's current epoch is not ours; CLUSTER_AUTHORIZATION_FAILED for followers
elsewhere than on the inter-broker listener.

v2: current leader epoch (KIP-320).  v3: replica id (KIP-392).  v4: flexible.
"""

from __future__ import annotations

from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API = ApiKey.OFFSET_FOR_LEADER_EPOCH


def handle(node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Look up every partition by itself."""
    is_allowed = request.replica_id < 0 or node.is_inter_broker(context.listener)
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end_of(node, topic.topic, asked, is_allowed=is_allowed) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _end_of(node: Node, topic: str, asked: OffsetForLeaderPartition, *, is_allowed: bool) -> EpochEndOffset:
    if not is_allowed:
        return EpochEndOffset(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, partition=asked.partition)
    try:
        replica = replica_of(node, TopicPartition(topic, asked.partition))
        replica.check_leader_epoch(asked.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    found = replica.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=found.leader_epoch,
        end_offset=found.end_offset,
    )

"""DescribeTopicPartitions, version 0 (KIP-966).

Behaviour: topics in order of their names, with at most `response_partition_limit` partitions (never more than 2000) on a page; the next
cursor names the first partition that found no place. Without topics all are described. A topic that does not exist is answered with
UNKNOWN_TOPIC_OR_PARTITION if it was asked for; a cursor at a topic that was not, or at a negative partition, with INVALID_REQUEST for every
topic of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.broker.handlers.authorized_operations import ON_TOPIC
from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.controller import PartitionState, TopicImage, check_name
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS

_PARTITIONS_PER_PAGE_MAX: Final = 2000  # Kafka's max.request.partition.size.limit


def handle(
    node: Node, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page, from the cursor on."""
    asked = {topic.name for topic in request.topics}
    if not _is_valid(request.cursor, asked):
        refused = tuple(_refused(name, ErrorCode.INVALID_REQUEST) for name in sorted(asked))
        return DescribeTopicPartitionsResponse(topics=refused)
    cursor = request.cursor or Cursor(topic_name="", partition_index=0)
    names = sorted(name for name in asked or node.metadata.image.topics if name >= cursor.topic_name)
    limit = max(1, min(request.response_partition_limit, _PARTITIONS_PER_PAGE_MAX))
    topics, next_cursor = _page(node, names, cursor, limit)
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def _is_valid(cursor: Cursor | None, asked: set[str]) -> bool:
    return cursor is None or (cursor.partition_index >= 0 and (not asked or cursor.topic_name in asked))


def _page(
    node: Node, names: Sequence[str], cursor: Cursor, room: int
) -> tuple[list[DescribeTopicPartitionsResponseTopic], Cursor | None]:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return topics, Cursor(topic_name=name, partition_index=0)
        topic = node.metadata.topic(name)
        if topic is None:
            topics.append(_refused(name, _why_unknown(name)))
            continue
        first = cursor.partition_index if name == cursor.topic_name else 0
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        topics.append(_topic(node, topic, indexes[:room]))
        if len(indexes) > room:
            return topics, Cursor(topic_name=name, partition_index=indexes[room])
        room -= len(indexes)
    return topics, None


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=None, partitions=())


def _topic(node: Node, topic: TopicImage, indexes: Sequence[int]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(node, index, topic.partitions[index]) for index in indexes),
        topic_authorized_operations=ON_TOPIC,
    )


def _partition(node: Node, index: int, state: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    has_leader = node.metadata.is_live(state.leader)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.assignment,
        isr_nodes=state.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=tuple(broker for broker in state.assignment if not node.metadata.is_live(broker)),
    )

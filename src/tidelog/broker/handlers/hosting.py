"""Finding the replica a request is about."""

from __future__ import annotations

from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.partition import Partition


def replica_of(node: Node, topic_partition: TopicPartition) -> Partition:
    """Our replica. Raises ApiError, NOT_LEADER_OR_FOLLOWER for a partition that others host."""
    try:
        return node.replicas.partition(topic_partition)
    except ApiError as error:
        raise elsewhere(node, topic_partition, error) from error


def elsewhere(node: Node, topic_partition: TopicPartition, error: ApiError) -> ApiError:
    """What to say of a partition we do not host: a client that was sent here must look for its leader, not doubt that it exists."""
    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    topic = node.metadata.topic(topic_partition.topic)
    is_known = topic is not None and topic_partition.index in topic.partitions
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) if is_known else error

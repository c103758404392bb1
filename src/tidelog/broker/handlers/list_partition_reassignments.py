"""ListPartitionReassignments, version 0 (KIP-455).

Behaviour: the partitions that are moving to other brokers, of those asked for or of all; answered by the controller, which alone knows.
"""

from __future__ import annotations

from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

API = ApiKey.LIST_PARTITION_REASSIGNMENTS


def handle(
    node: Node, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer from the controller's image."""
    asked = None
    if request.topics is not None:
        asked = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    try:
        moving = node.controller.list_reassignments(asked)
    except ApiError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for one in moving:
        topics.setdefault(one.topic_partition.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=one.topic_partition.index,
                replicas=one.replicas,
                adding_replicas=one.adding,
                removing_replicas=one.removing,
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(OngoingTopicReassignment(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
    )

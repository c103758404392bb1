"""AlterPartitionReassignments, versions 0 and 1 (KIP-455).

Behaviour: partitions move to other brokers, which first copy them and join their ISR; then the old ones go. Without replicas a move that is
under way ends where it began. Answered when the move has begun, not when it is complete. Decided by the controller.

INVALID_REPLICA_ASSIGNMENT, UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICATION_FACTOR per partition.

v1: may refuse to change the number of replicas (KIP-860).
"""

from __future__ import annotations

from tidelog.broker.node import Node
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS


async def handle(
    node: Node, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Let the controller decide about every partition."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    refused = {} if request.allow_replication_factor_change else _changing_the_count(node, wanted)
    try:
        decided = await node.controller.alter_reassignments(
            {one: replicas for one, replicas in wanted.items() if one not in refused}
        )
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=error.code,
            error_message=error.message,
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        responses=_answers(request, {**decided, **refused}),
    )


def _changing_the_count(
    node: Node, wanted: dict[TopicPartition, tuple[BrokerId, ...] | None]
) -> dict[TopicPartition, ApiError | None]:
    """Those that would have more or fewer replicas afterwards."""
    refused: dict[TopicPartition, ApiError | None] = {}
    for one, replicas in wanted.items():
        state = node.metadata.image.state_of(one)
        if state is not None and replicas is not None and len(replicas) != len(state.origin):
            message = (
                f"The replication factor is {len(state.origin)} and is not to change, but {len(replicas)} were given."
            )
            refused[one] = ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return refused


def _answers(
    request: AlterPartitionReassignmentsRequest, decided: dict[TopicPartition, ApiError | None]
) -> tuple[ReassignableTopicResponse, ...]:
    return tuple(
        ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(
                _answer(partition.partition_index, decided[TopicPartition(topic.name, partition.partition_index)])
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )


def _answer(index: int, error: ApiError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=index, error_code=ErrorCode.NONE)
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)

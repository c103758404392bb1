"""CreatePartitions, versions 0 to 3.

Behaviour: topics get more partitions, placed where their own placement stopped, or as the assignments say; answered when the new ones have
leaders. Records that are there stay where they are, so a key may be found in two partitions afterwards.

UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS for a count that is no growth, INVALID_REPLICA_ASSIGNMENT for assignments that do not fit,
INVALID_REPLICATION_FACTOR where too few brokers live, POLICY_VIOLATION above tidelog.topic.partitions.max or
tidelog.request.partitions.max, INVALID_REQUEST for a topic named twice.

v0: KIP-195.  v1: throttling moves to the client (KIP-219).  v2: flexible.  v3: throttling errors (KIP-599).
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.controller import MorePartitions
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

API = ApiKey.CREATE_PARTITIONS


async def handle(node: Node, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Let the controller decide about every topic named once."""
    counts = Counter(topic.name for topic in request.topics)
    unique = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name not in INTERNAL_TOPICS]
    errors = await node.controller.create_partitions(
        [_more(topic) for topic in unique], validate_only=request.validate_only
    )
    results = [_result(topic.name, error) for topic, error in zip(unique, errors, strict=True)]
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
    results += [_result(name, duplicate) for name, count in counts.items() if count > 1]
    # Whatever lies in such a topic would be looked for elsewhere, and offsets would be gone.
    fixed = ApiError(ErrorCode.INVALID_REQUEST, "The number of partitions of an internal topic cannot be changed.")
    results += [_result(name, fixed) for name, count in counts.items() if count == 1 and name in INTERNAL_TOPICS]
    return CreatePartitionsResponse(results=tuple(results))


def _more(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = None if topic.assignments is None else tuple(row.broker_ids for row in topic.assignments)
    return MorePartitions(name=topic.name, count=topic.count, assignments=assignments)


def _result(name: str, error: ApiError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)

"""ElectLeaders, versions 0 to 2.

Behaviour: preferred leaders (type 0) get their leadership back; where nobody leads, type 1 has any live replica lead, at the price of
records. Without partitions all are looked at, and only those that changed or failed are answered. Decided by the controller.

ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION per partition; INVALID_REQUEST
for a type of election that does not exist.

v1: election type, error code (KIP-460).  v2: flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.node import Node
from tidelog.controller import ElectionType
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API = ApiKey.ELECT_LEADERS

_KINDS = {kind.value: kind for kind in ElectionType}


async def handle(node: Node, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Let the controller elect."""
    kind = _KINDS.get(request.election_type)
    if kind is None:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    asked = _asked(request)
    try:
        results = await node.controller.elect_leaders(kind, asked, request.timeout_ms)
    except ApiError as error:
        results = [(one, error) for one in asked or ()]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=_by_topic(results))
    if asked is None:
        results = [
            (one, error) for one, error in results if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
    return ElectLeadersResponse(replica_election_results=_by_topic(results))


def _asked(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    named = (TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
    return list(dict.fromkeys(named))


def _by_topic(results: Sequence[tuple[TopicPartition, ApiError | None]]) -> tuple[ReplicaElectionResult, ...]:
    topics: dict[str, list[PartitionResult]] = {}
    for one, error in results:
        topics.setdefault(one.topic, []).append(
            PartitionResult(
                partition_id=one.index,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return tuple(ReplicaElectionResult(topic=name, partition_result=tuple(rows)) for name, rows in topics.items())

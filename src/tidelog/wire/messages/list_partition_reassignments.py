"""ListPartitionReassignments: which partitions are moving to other brokers (KIP-455)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class OngoingPartitionReassignment:
    """All replicas that the partition has now, and those of them that come and go."""

    partition_index: int
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


@message
class OngoingTopicReassignment:
    """The partitions of one topic that are moving."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse(Response):
    """The partitions that are moving; those that are not are left out."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


@message
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@message
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """The partitions to tell of; null for all."""

    timeout_ms: int = 60_000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


API = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    changes={},
)

"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966)."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class DescribeTopicPartitionsResponsePartition:
    """One partition; the replicas that may lead though they left the ISR are null where nobody keeps track of them."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...]


@message
class DescribeTopicPartitionsResponseTopic:
    """One topic, with as many of its partitions as the page has room for."""

    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int = -(2**31)


@message
class Cursor:
    """The first partition that is not on the page before."""

    topic_name: str
    partition_index: int


@message
class DescribeTopicPartitionsResponse(Response):
    """One page; without a next cursor it is the last."""

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None = None


@message
class TopicRequest:
    """A topic by name."""

    name: str


@message
class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """Topics, or with none all of them, from the cursor on."""

    topics: tuple[TopicRequest, ...]
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


API = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    changes={0: "topics in pages (KIP-966)"},
)

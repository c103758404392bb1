"""DescribeProducers: which idempotent and transactional producers a partition remembers (KIP-664)."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class ProducerState:
    """One producer on one partition; the offset is that of its open transaction, -1 without one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int
    current_txn_start_offset: int = -1


@message
class PartitionResponse:
    """The producers of one partition."""

    partition_index: int
    error_code: ErrorCode
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


@message
class TopicResponse:
    """The partitions of one topic."""

    name: str
    partitions: tuple[PartitionResponse, ...]


@message
class DescribeProducersResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...]


@message
class TopicRequest:
    """The partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Partitions, which the broker asked must lead."""

    topics: tuple[TopicRequest, ...]


API = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    changes={0: "producers of partitions (KIP-664)"},
)

"""CountVisibleRecords: how many records a reader of committed records would get, which offsets alone do not say. Ours, not Kafka's."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int32, Int64


@message
class VisibleRecordsOfPartition:
    """The records in [offset asked for, `counted_to`). Where that is below the last stable offset the work was too much for one request.

    Not exact where the offset lies in a batch with gaps, whose places are not known without decoding it: then no more than so many.
    """

    partition_index: Int32
    error_code: ErrorCode
    visible_count: Int64 = -1
    is_exact: bool = False
    counted_to: Int64 = -1
    last_stable_offset: Int64 = -1
    high_watermark: Int64 = -1
    log_start_offset: Int64 = -1


@message
class VisibleRecordsOfTopic:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[VisibleRecordsOfPartition, ...]


@message
class CountVisibleRecordsResponse(Response):
    """One result per partition asked for."""

    throttle_time_ms: Int32 = 0
    topics: tuple[VisibleRecordsOfTopic, ...]


@message
class CountFrom:
    """The offset from which the records of a partition are counted, and the leader epoch that the client knows, or -1."""

    partition_index: Int32
    offset: Int64
    current_leader_epoch: Int32 = -1


@message
class CountInTopic:
    """The partitions of one topic."""

    topic: str
    partitions: tuple[CountFrom, ...]


@message
class CountVisibleRecordsRequest(Request[CountVisibleRecordsResponse]):
    """Asked of the leaders of these partitions."""

    topics: tuple[CountInTopic, ...]


API = Api(
    key=ApiKey.COUNT_VISIBLE_RECORDS,
    served=VersionRange(0, 0),
    flexible_from=0,
    request=CountVisibleRecordsRequest,
    response=CountVisibleRecordsResponse,
    changes={},
    is_private=True,
    declares_itself=True,
)

"""ListOffsets, versions 1 to 11.

Behaviour: where a partition begins (-2) and ends (-1: the high watermark, or the last stable offset for read_committed), and which offset
is the first with at least a given timestamp. A negative timestamp a version does not know is answered with UNSUPPORTED_VERSION. Followers,
on the inter-broker listener, are told the log end, which is where they go.

v1: one offset per partition.  v2: isolation level (KIP-98).  v3: throttling moves to the client (KIP-219).  v4: leader epoch (KIP-320).
v5: OFFSET_NOT_AVAILABLE.  v6: flexible.  v7: max timestamp, -3 (KIP-734).  v8: earliest local, -4 (KIP-405).  v9: last tiered, -5 (KIP-1005).
v10: timeout.  v11: earliest pending upload, -6 (KIP-1023).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.handlers.isolation import isolation_level
from tidelog.broker.node import Node
from tidelog.model import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    ApiError,
    ErrorCode,
    IsolationLevel,
    Offset,
    TopicPartition,
)
from tidelog.partition import Partition
from tidelog.runtime import StorageFailure
from tidelog.server import RequestContext
from tidelog.storage import TimestampedOffset
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API = ApiKey.LIST_OFFSETS

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_PARTITIONS_AT_ONCE: Final = 500
# The version in which each special timestamp appeared.
_KNOWN_SINCE: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}


def handle(
    node: Node, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up every partition by itself; many of them, or several by time, with a look at the world in between."""
    asked = [partition for topic in request.topics for partition in topic.partitions]
    looks = _Looks(node, context, request, _named_twice(request))
    if len(asked) > _PARTITIONS_AT_ONCE or sum(map(_is_search, asked)) > 1:
        return looks.answer_in_slices()
    return looks.answer()


def _named_twice(request: ListOffsetsRequest) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


def _is_search(asked: ListOffsetsPartition) -> bool:
    """Whether records are read for it, which takes milliseconds."""
    return asked.timestamp >= 0 or asked.timestamp == _MAX_TIMESTAMP


class _Looks(NamedTuple):
    """The lookups of one request."""

    node: Node
    context: RequestContext
    request: ListOffsetsRequest
    twice: set[TopicPartition]

    def answer(self) -> ListOffsetsResponse:
        """All at once."""
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple([self._look(topic.name, partition) for partition in topic.partitions]),
                )
                for topic in self.request.topics
            )
        )

    async def answer_in_slices(self) -> ListOffsetsResponse:
        """All, a few at a time."""
        topics = []
        for topic in self.request.topics:
            found = []
            for number, partition in enumerate(topic.partitions):
                if _is_search(partition) or number % _PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                found.append(self._look(topic.name, partition))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(found)))
        return ListOffsetsResponse(topics=tuple(topics))

    def _look(self, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        key = TopicPartition(topic, asked.partition_index)
        return _one(self.node, self.context, self.request, key, asked, self.twice)


def _one(
    node: Node,
    context: RequestContext,
    request: ListOffsetsRequest,
    key: TopicPartition,
    asked: ListOffsetsPartition,
    twice: set[TopicPartition],
) -> ListOffsetsPartitionResponse:
    try:
        if key in twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a partition is asked for twice")
        isolation = isolation_level(request.isolation_level)
        replica = replica_of(node, key)
        leadership = replica.check_leader_epoch(asked.current_leader_epoch)
        if request.replica_id >= 0:
            found = _find_for_follower(node, context, replica, asked.timestamp)
        else:
            found = _find(replica, asked.timestamp, context.version, isolation, leadership.leader_epoch)
    except ApiError as error:
        return ListOffsetsPartitionResponse(partition_index=key.index, error_code=error.code)
    except StorageFailure as failure:
        code = node.replicas.storage_error(key, failure).code
        return ListOffsetsPartitionResponse(partition_index=key.index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=key.index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find_for_follower(node: Node, context: RequestContext, replica: Partition, timestamp: int) -> TimestampedOffset:
    if not node.is_inter_broker(context.listener):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if timestamp not in {_LATEST, _EARLIEST}:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a follower asks for the beginning or the end")
    offset = replica.log.log_end_offset if timestamp == _LATEST else replica.log.log_start_offset
    return _at(offset, replica.leader_epoch if timestamp == _LATEST else replica.log.epoch_at(offset))


def _find(
    replica: Partition, timestamp: int, version: int, isolation: IsolationLevel, leader_epoch: int
) -> TimestampedOffset:
    if timestamp < 0 and version < _KNOWN_SINCE.get(timestamp, version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    bound = replica.bound(isolation)
    nothing = _at(NO_OFFSET, NO_LEADER_EPOCH)
    match timestamp:
        case -1:
            _check_end_known(replica, version)
            return _at(bound, leader_epoch)
        case -2 | -4:  # Without tiers, the first local offset is the first.
            start = replica.log.log_start_offset
            return _at(start, replica.log.epoch_at(start))
        case -3:
            return replica.log.offset_of_max_timestamp(end_offset=bound) or nothing
        case -5 | -6:  # Nothing is tiered, nothing waits to be.
            return nothing
        case _:
            found = replica.log.offset_for_timestamp(timestamp, end_offset=bound)
            if found is None:
                _check_end_known(replica, version)
            return found or nothing


def _check_end_known(replica: Partition, version: int) -> None:
    if not replica.is_end_known:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)


def _at(offset: Offset, leader_epoch: int) -> TimestampedOffset:
    return TimestampedOffset(offset=offset, timestamp_ms=NO_TIMESTAMP, leader_epoch=leader_epoch)

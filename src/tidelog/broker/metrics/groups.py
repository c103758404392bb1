"""The consumer groups that this broker coordinates, in the words of kafka-exporter.

They are asked as any administrator asks them, by the requests of the protocol, so that what a dashboard shows is what `kafka-consumer-groups`
shows. The ends of partitions that others lead are asked of those; who does not answer in time is left out of this look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final, TypeVar

from tidelog.broker.metrics.exposition import Exposition
from tidelog.broker.node import Node
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.runtime import Address
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey, Request, Response
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from tidelog.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

R = TypeVar("R", bound=Response)

_ANSWER_WITHIN_MS: Final = 2_000.0
_GROUPS_WITHIN_S: Final = 5.0
_NOBODY: Final = Address("", 0)
_CONSUMER: Final = "consumer"
_VERSIONS: Final = {ApiKey.LIST_GROUPS: 5, ApiKey.OFFSET_FETCH: 9, ApiKey.DESCRIBE_GROUPS: 5}

Offsets = dict[str, dict[TopicPartition, Offset]]


async def tell_groups(node: Node, seen: Exposition) -> None:
    """Members, committed offsets and lag. Groups that are being loaded are not told of."""
    committed: Offsets = {}
    try:
        async with asyncio.timeout(_GROUPS_WITHIN_S):
            listed = await node.groups.ask_all(ListGroupsRequest(), _context(ApiKey.LIST_GROUPS))
            for group in (each for answer in listed if answer.error_code is ErrorCode.NONE for each in answer.groups):
                committed[group.group_id] = await _committed(node, group.group_id)
                await _tell_members(node, group, seen)
    except TimeoutError:
        seen.gauge("tidelog_metrics_groups_complete", 0)
    else:
        seen.gauge("tidelog_metrics_groups_complete", 1)
    wanted = {partition for offsets in committed.values() for partition in offsets}
    _tell_lag(committed, await _ends(node, wanted), seen)


def _tell_lag(committed: Offsets, ends: Mapping[TopicPartition, Offset], seen: Exposition) -> None:
    for group_id, offsets in committed.items():
        sums: dict[str, int] = {}
        for partition, offset in sorted(offsets.items()):
            labels = {"consumergroup": group_id, "topic": partition.topic, "partition": partition.index}
            seen.gauge("kafka_consumergroup_current_offset", offset, **labels)
            if partition in ends:
                lag = max(0, ends[partition] - offset)
                seen.gauge("kafka_consumergroup_lag", lag, **labels)
                sums[partition.topic] = sums.get(partition.topic, 0) + lag
        for topic, lag in sums.items():
            seen.gauge("kafka_consumergroup_lag_sum", lag, consumergroup=group_id, topic=topic)


async def _committed(node: Node, group_id: str) -> dict[TopicPartition, Offset]:
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),))
    answer = await _ask(node, group_id, request, ApiKey.OFFSET_FETCH)
    return {
        TopicPartition(topic.name, row.partition_index): row.committed_offset
        for group in answer.groups
        for topic in group.topics
        for row in topic.partitions
        if row.error_code is ErrorCode.NONE and row.committed_offset >= 0
    }


async def _tell_members(node: Node, group: ListedGroup, seen: Exposition) -> None:
    count = await _member_count(node, group)
    if count is not None:
        seen.gauge("kafka_consumergroup_members", count, consumergroup=group.group_id)


async def _member_count(node: Node, group: ListedGroup) -> int | None:
    group_id = group.group_id
    if group.group_type.lower() == _CONSUMER:
        asked = ConsumerGroupDescribeRequest(group_ids=(group_id,))
        described = (await _ask(node, group_id, asked, ApiKey.CONSUMER_GROUP_DESCRIBE)).groups[0]
        return len(described.members) if described.error_code is ErrorCode.NONE else None
    classic = (await _ask(node, group_id, DescribeGroupsRequest(groups=(group_id,)), ApiKey.DESCRIBE_GROUPS)).groups[0]
    return len(classic.members) if classic.error_code is ErrorCode.NONE else None


async def _ends(node: Node, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
    """The high watermark of each, from its leader."""
    ends: dict[TopicPartition, Offset] = {}
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        replica = node.replicas.hosting.partition(partition)
        state = node.metadata.image.state_of(partition)
        if replica is not None and replica.is_leader:
            ends[partition] = replica.high_watermark
        elif state is not None and state.leader != node.config.broker_id and node.metadata.is_live(state.leader):
            elsewhere.setdefault(state.leader, []).append(partition)
    for found in await asyncio.gather(*(_ends_at(node, leader, asked) for leader, asked in elsewhere.items())):
        ends |= found
    return ends


async def _ends_at(node: Node, leader: BrokerId, partitions: list[TopicPartition]) -> dict[TopicPartition, Offset]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        row = ListOffsetsPartition(partition_index=partition.index, timestamp=LATEST_TIMESTAMP)
        by_topic.setdefault(partition.topic, []).append(row)
    topics = tuple(ListOffsetsTopic(name=name, partitions=tuple(rows)) for name, rows in by_topic.items())
    try:
        answer = await node.peers.request(
            leader, ListOffsetsRequest(replica_id=-1, topics=topics), timeout_ms=_ANSWER_WITHIN_MS
        )
    except (ConnectionLost, UnsupportedApi):
        return {}
    return {
        TopicPartition(topic.name, row.partition_index): row.offset
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code is ErrorCode.NONE
    }


async def _ask(node: Node, group_id: str, request: Request[R], api: ApiKey) -> R:
    answer = node.groups.ask(group_id, request, _context(api))
    return await answer if isinstance(answer, Awaitable) else answer


def _context(api: ApiKey) -> RequestContext:
    header = RequestHeader(api, _VERSIONS.get(api, 0), correlation_id=0, client_id="metrics")
    return RequestContext(header, "", _NOBODY, _NOBODY)

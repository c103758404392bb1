"""OffsetDelete, version 0 (KIP-496).

Behaviour: partitions that do not exist are refused here with UNKNOWN_TOPIC_OR_PARTITION; the offsets of all others are forgotten by the
coordinator, whose top-level error replaces everything. An empty group id is INVALID_GROUP_ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from tidelog.broker.handlers.group_requests import PARTITIONS_PER_SLICE, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API = ApiKey.OFFSET_DELETE

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def handle(node: Node, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Refuse what does not exist, and let the coordinator forget the rest."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    known: dict[str, dict[int, OffsetDeleteRequestPartition]] = {}
    results: dict[str, list[OffsetDeleteResponsePartition]] = {topic.name: [] for topic in request.topics}
    seen = 0
    for topic in request.topics:
        found = node.metadata.topic(topic.name)
        for partition in topic.partitions:
            if found is not None and partition.partition_index in found.partitions:
                known.setdefault(topic.name, {})[partition.partition_index] = partition
            else:
                unknown = OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=_UNKNOWN)
                results[topic.name].append(unknown)
            seen += 1
            if seen % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
    # Also where nothing is left to forget: whether there is such a group, and whether we look after it, only the coordinator knows.
    answer = await settled(node.groups.ask(request.group_id, _request(request.group_id, known), context))
    if answer.error_code:
        return OffsetDeleteResponse(error_code=answer.error_code)
    for deleted in answer.topics:
        results[deleted.name] += deleted.partitions
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=_topics(results.items()))


def _request(group_id: str, known: dict[str, dict[int, OffsetDeleteRequestPartition]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(name=name, partitions=tuple(partitions.values()))
            for name, partitions in known.items()
        ),
    )


def _topics(
    results: Iterable[tuple[str, list[OffsetDeleteResponsePartition]]],
) -> tuple[OffsetDeleteResponseTopic, ...]:
    return tuple(OffsetDeleteResponseTopic(name=name, partitions=tuple(found)) for name, found in results)

"""OffsetCommit, versions 2 to 10.

Behaviour: partitions that do not exist are refused here, UNKNOWN_TOPIC_OR_PARTITION by name and UNKNOWN_TOPIC_ID by id; the offsets of all
others are committed together by the coordinator, which is always given names. Of a partition named twice the last offset counts. The empty
group id is a group like any other, as in Kafka.

v2: retention time, until v4.  v3: throttle time.  v6: leader epoch (KIP-320).  v7: static members (KIP-345).  v8: flexible.
v9: member epochs (KIP-848).  v10: topic ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.broker.handlers.group_requests import PARTITIONS_PER_SLICE, settled
from tidelog.broker.node import Node
from tidelog.controller import TopicImage
from tidelog.model import ErrorCode, TopicId
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = ApiKey.OFFSET_COMMIT

_IDS_SINCE: Final = 10


async def handle(node: Node, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Refuse what does not exist, and let the coordinator commit the rest."""
    is_by_id = context.version >= _IDS_SINCE
    topics: dict[str | TopicId | None, _Topic] = {}
    async for asked, partition in _in_slices(request):
        key = asked.topic_id if is_by_id else asked.name
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = _Topic(asked, _found(node, asked), is_by_id=is_by_id)
        topic.take(partition)
    by_name = {topic.found.name: topic for topic in topics.values() if topic.found is not None and topic.known}
    if by_name:
        known = tuple(
            OffsetCommitRequestTopic(name=name, topic_id=topic.asked.topic_id, partitions=tuple(topic.known.values()))
            for name, topic in by_name.items()
        )
        answer = await settled(node.groups.ask(request.group_id, replace(request, topics=known), context))
        for committed in answer.topics:
            by_name[committed.name].results += committed.partitions
    return OffsetCommitResponse(topics=tuple(topic.answer() for topic in topics.values()))


async def _in_slices(
    request: OffsetCommitRequest,
) -> AsyncIterator[tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition]]:
    """Everything that is to be committed; others have their turn in between. Topics without partitions are to no purpose."""
    seen = 0
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic, partition
            seen += 1
            if seen % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)


def _found(node: Node, asked: OffsetCommitRequestTopic) -> TopicImage | None:
    return node.metadata.topic(asked.name) if asked.topic_id is None else node.metadata.topic_by_id(asked.topic_id)


@dataclass(slots=True)
class _Topic:
    """One topic of a request: what exists of it, and what became of its partitions."""

    asked: OffsetCommitRequestTopic
    found: TopicImage | None
    is_by_id: bool = field(kw_only=True)
    known: dict[int, OffsetCommitRequestPartition] = field(default_factory=dict)
    results: list[OffsetCommitResponsePartition] = field(default_factory=list)

    def take(self, partition: OffsetCommitRequestPartition) -> None:
        """One partition more: it is known, or refused."""
        if self.found is not None and partition.partition_index in self.found.partitions:
            self.known[partition.partition_index] = partition
            return
        is_id_unknown = self.is_by_id and self.found is None
        code = ErrorCode.UNKNOWN_TOPIC_ID if is_id_unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
        self.results.append(refused)

    def answer(self) -> OffsetCommitResponseTopic:
        """All results, under the name or the id that was asked with."""
        return OffsetCommitResponseTopic(
            name=self.asked.name, topic_id=self.asked.topic_id, partitions=tuple(self.results)
        )

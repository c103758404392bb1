"""CountVisibleRecords, version 0; ours, not Kafka's, and advertised to nobody.

Behaviour: how many records a consumer at read_committed would get from an offset on, up to the last stable offset: markers, records of
aborted transactions and the gaps of compaction are not among them. The leader counts by batch headers and transaction indexes. An offset
before the log start counts as the log start, one behind the last stable offset gives 0.

`counted_to` says how far the count goes: where it is below the last stable offset, a request was worth no more work, and whoever wants the
rest asks again from there. `is_exact` is false where the offset lies within a batch that compaction has left gaps in; then there are not
more than so many. NOT_LEADER_OR_FOLLOWER, the fences of KIP-320 and OFFSET_NOT_AVAILABLE are as for ListOffsets.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.node import Node
from tidelog.broker.visible_records import Turn
from tidelog.model import ApiError, TopicPartition
from tidelog.runtime import StorageFailure
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.count_visible_records import (
    CountFrom,
    CountVisibleRecordsRequest,
    CountVisibleRecordsResponse,
    VisibleRecordsOfPartition,
    VisibleRecordsOfTopic,
)

API = ApiKey.COUNT_VISIBLE_RECORDS

_REFUSALS_AT_ONCE: Final = 500


async def handle(
    node: Node, context: RequestContext, request: CountVisibleRecordsRequest
) -> CountVisibleRecordsResponse:
    """One partition after the other."""
    topics = []
    async with node.visible_records.turn() as turn:
        for topic in request.topics:
            counted = []
            for number, asked in enumerate(topic.partitions, 1):
                counted.append(await _one(node, turn, topic.topic, asked))
                if number % _REFUSALS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            topics.append(VisibleRecordsOfTopic(topic=topic.topic, partitions=tuple(counted)))
    return CountVisibleRecordsResponse(topics=tuple(topics))


async def _one(node: Node, turn: Turn, topic: str, asked: CountFrom) -> VisibleRecordsOfPartition:
    key = TopicPartition(topic, asked.partition_index)
    try:
        return await turn.count(replica_of(node, key), asked)
    except ApiError as error:
        code = error.code
    except StorageFailure as failure:
        code = node.replicas.storage_error(key, failure).code
    return VisibleRecordsOfPartition(partition_index=key.index, error_code=code)

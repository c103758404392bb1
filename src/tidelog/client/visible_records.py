"""Asking leaders how many records a reader of committed records would get: the lag in records, where offsets say too much.

Not of Kafka's protocol. A broker that does not know the question hangs up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidelog.client.admin_messages import by_topic
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import ConnectionLost
from tidelog.client.leaders import LeaderQuestions
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.wire.messages.count_visible_records import (
    CountFrom,
    CountInTopic,
    CountVisibleRecordsRequest,
    CountVisibleRecordsResponse,
    VisibleRecordsOfPartition,
)

_VERSION: Final = 0  # said outright, since brokers do not advertise what is not of Kafka's protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleRecords:
    """What a reader at read_committed gets of one partition, from some offset up to the last stable offset."""

    visible_count: int
    is_exact: bool
    """If not, there are not more than so many: the offset lies in a batch that compaction has left gaps in."""
    counted_to: Offset
    last_stable_offset: Offset
    high_watermark: Offset
    log_start_offset: Offset


class VisibleRecordsQuestions:
    """Asks the leaders, as often as it takes until they have counted everything."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._leaders = LeaderQuestions(cluster, config, runtime)

    async def ask(self, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, VisibleRecords | ErrorCode]:
        """The records from each offset on; UNSUPPORTED_VERSION where the leader hung up, since it does not know the question."""

        async def ask(
            node: BrokerId, led: Sequence[TopicPartition]
        ) -> dict[TopicPartition, VisibleRecords | ErrorCode]:
            return await self._count_at(node, {key: offsets[key] for key in led})

        return await self._leaders.ask(offsets, ask)

    async def _count_at(
        self, node: BrokerId, positions: dict[TopicPartition, Offset]
    ) -> dict[TopicPartition, VisibleRecords | ErrorCode]:
        found: dict[TopicPartition, VisibleRecords | ErrorCode] = {}
        while positions:
            try:
                answer = await self._cluster.request(node, _request(positions), version=_VERSION)
            except ConnectionLost:
                return {**found, **dict.fromkeys(positions, ErrorCode.UNSUPPORTED_VERSION)}
            remaining: dict[TopicPartition, Offset] = {}
            has_moved = False
            for key, told in _told(answer).items():
                before = found.get(key)
                if isinstance(told, VisibleRecords):
                    has_moved |= told.counted_to > positions[key]
                    told = _together(before, told) if isinstance(before, VisibleRecords) else told
                    if told.counted_to < told.last_stable_offset:
                        remaining[key] = told.counted_to
                found[key] = told
            if remaining and not has_moved:
                return {**found, **dict.fromkeys(remaining, ErrorCode.UNKNOWN_SERVER_ERROR)}
            positions = remaining
        return found


def _request(positions: Mapping[TopicPartition, Offset]) -> CountVisibleRecordsRequest:
    return CountVisibleRecordsRequest(
        topics=tuple(
            CountInTopic(
                topic=topic,
                partitions=tuple(CountFrom(partition_index=key.index, offset=positions[key]) for key in keys),
            )
            for topic, keys in by_topic(positions).items()
        )
    )


def _told(answer: CountVisibleRecordsResponse) -> dict[TopicPartition, VisibleRecords | ErrorCode]:
    return {
        TopicPartition(topic.topic, row.partition_index): _counted(row)
        for topic in answer.topics
        for row in topic.partitions
    }


def _counted(row: VisibleRecordsOfPartition) -> VisibleRecords | ErrorCode:
    if row.error_code is not ErrorCode.NONE:
        return row.error_code
    return VisibleRecords(
        visible_count=row.visible_count,
        is_exact=row.is_exact,
        counted_to=row.counted_to,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        log_start_offset=row.log_start_offset,
    )


def _together(before: VisibleRecords, after: VisibleRecords) -> VisibleRecords:
    """What was counted in two requests, the second from where the first had ended."""
    count = before.visible_count + after.visible_count
    return replace(after, visible_count=count, is_exact=before.is_exact and after.is_exact)

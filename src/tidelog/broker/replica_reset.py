"""Where a leader's logs begin and end: what a follower asks whose position is in none of them (kafka-semantics, out of range)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client.connection import Connection
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.partition import FetchPosition
from tidelog.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_VERSION: Final = 9


class LogBounds(NamedTuple):
    """The first offset of a log, and the one after its last."""

    start_offset: Offset
    end_offset: Offset


async def ask_bounds(
    connection: Connection, replica_id: BrokerId, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, LogBounds]:
    """The bounds of those logs for which the leader is still the one of the position's epoch. Raises ConnectionLost."""
    if not positions:
        return {}
    # The end before the start: a start that moves in between is only newer, an end might be below it.
    ends = await _ask(connection, replica_id, positions, LATEST_TIMESTAMP)
    starts = await _ask(connection, replica_id, positions, EARLIEST_TIMESTAMP)
    return {key: LogBounds(starts[key], max(starts[key], end)) for key, end in ends.items() if key in starts}


async def _ask(
    connection: Connection, replica_id: BrokerId, positions: Mapping[TopicPartition, FetchPosition], timestamp: int
) -> dict[TopicPartition, Offset]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for key, position in positions.items():
        topics.setdefault(key.topic, []).append(
            ListOffsetsPartition(
                partition_index=key.index, current_leader_epoch=position.leader_epoch, timestamp=timestamp
            )
        )
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=0,
        topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()),
    )
    response = await connection.request(request, version=_VERSION)
    return {
        TopicPartition(topic.name, found.partition_index): found.offset
        for topic in response.topics
        for found in topic.partitions
        if found.error_code is ErrorCode.NONE
    }

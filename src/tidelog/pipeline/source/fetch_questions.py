"""The Fetch requests of a task, and whose answer is whose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.client import Connection, ConsumerConfig
from tidelog.client.metadata import MetadataCache
from tidelog.model import BrokerEndpoint, ErrorCode, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_TOPIC_IDS_FROM: Final = 13
_WAIT_MS: Final = 500  # for records that are there, or will be once a new leader knows that they are committed
_NO_SESSION: Final = -1


class Question(NamedTuple):
    """From where to read how much of a partition."""

    topic_partition: TopicPartition
    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    bytes_max: int


class Answers(NamedTuple):
    """What a broker answered; a partition that it did not mention is not in `partitions`."""

    code: ErrorCode
    throttle_ms: int
    partitions: dict[TopicPartition, PartitionData]
    endpoints: list[BrokerEndpoint]


async def ask(
    connection: Connection, metadata: MetadataCache, config: ConsumerConfig, questions: Sequence[Question]
) -> Answers:
    """Ask one leader, without a session: what a task wants changes with every answer. Raises ConnectionLost or UnsupportedApi."""
    ids = {each.topic_partition.topic: metadata.topic_id(each.topic_partition.topic) for each in questions}
    version = connection.version_of(ApiKey.FETCH)
    if None in ids.values():
        version = min(version, _TOPIC_IDS_FROM - 1)
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=config.fetch_max_bytes,
        isolation_level=config.isolation_level,
        session_epoch=_NO_SESSION,
        topics=_topics(questions, ids),
    )
    timeout_ms = config.request_timeout_ms + _WAIT_MS
    return _answers(await connection.request(request, version=version, timeout_ms=timeout_ms), ids)


def _topics(questions: Iterable[Question], ids: Mapping[str, TopicId | None]) -> tuple[FetchTopic, ...]:
    topics: dict[str, list[FetchPartition]] = {}
    for topic_partition, fetch_offset, leader_epoch, bytes_max in questions:
        topics.setdefault(topic_partition.topic, []).append(
            FetchPartition(
                partition=topic_partition.index,
                current_leader_epoch=leader_epoch,
                fetch_offset=fetch_offset,
                partition_max_bytes=bytes_max,
            )
        )
    return tuple(FetchTopic(topic=name, topic_id=ids[name], partitions=tuple(rows)) for name, rows in topics.items())


def _answers(response: FetchResponse, ids: Mapping[str, TopicId | None]) -> Answers:
    names = {topic_id: name for name, topic_id in ids.items() if topic_id is not None}
    partitions = {
        TopicPartition(
            topic.topic if topic.topic_id is None else names.get(topic.topic_id, ""), row.partition_index
        ): row
        for topic in response.responses
        for row in topic.partitions
    }
    endpoints = [BrokerEndpoint(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
    return Answers(response.error_code, response.throttle_time_ms, partitions, endpoints)

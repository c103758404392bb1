"""The parts of a Fetch response, for consumers and followers alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.broker.session_terms import PartitionKey
from tidelog.model import NO_OFFSET, ErrorCode
from tidelog.wire.messages.fetch import (
    NO_LEADER_HINT,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)


class PartitionAnswer(NamedTuple):
    """One partition's part of an answer, under the name it was asked for by."""

    key: PartitionKey
    data: PartitionData


def refused(code: ErrorCode) -> FetchResponse:
    """The answer to a request of which nothing can be served."""
    return FetchResponse(throttle_time_ms=0, error_code=code, responses=())


def failed(index: int, code: ErrorCode, current_leader: LeaderIdAndEpoch = NO_LEADER_HINT) -> PartitionData:
    """The answer for a partition that cannot be served, with who leads it where that may help."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        current_leader=current_leader,
        aborted_transactions=None,
        records=b"",
    )


def response(
    session_id: int, answers: Iterable[PartitionAnswer], endpoints: tuple[NodeEndpoint, ...] = ()
) -> FetchResponse:
    """Group neighbours of one topic; a topic may appear twice when the session's order has split it."""
    topics: list[FetchableTopicResponse] = []
    group: list[PartitionData] = []
    key: PartitionKey | None = None
    for answer in answers:
        if key is not None and (key.topic, key.topic_id) != (answer.key.topic, answer.key.topic_id):
            topics.append(_topic(key, group))
            group = []
        key = answer.key
        group.append(answer.data)
    if key is not None:
        topics.append(_topic(key, group))
    return FetchResponse(throttle_time_ms=0, session_id=session_id, responses=tuple(topics), node_endpoints=endpoints)


def _topic(key: PartitionKey, partitions: list[PartitionData]) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=tuple(partitions))

"""Everything that a follower tells its leader, or hears from it, survives the hand-written codecs: by value, against kio."""

from __future__ import annotations

import dataclasses
from uuid import UUID

import pytest

from tests.wire.oracle import Case, converted, kio_bytes, kio_message
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import (
    NO_REPLICA,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)

TOPIC_ID, DIRECTORY_ID = UUID(int=7), UUID(int=9)
VERSIONS_OF_FOLLOWERS = pytest.mark.parametrize("version", range(12, 18))


def request_of(version: int) -> FetchRequest:
    by_id, has_state = version >= 13, version >= 15
    name, topic_id = ("", TOPIC_ID) if by_id else ("orders", None)
    partition = FetchPartition(
        partition=3,
        current_leader_epoch=9,
        fetch_offset=1 << 40,
        last_fetched_epoch=8,
        log_start_offset=17,
        partition_max_bytes=1 << 20,
        replica_directory_id=DIRECTORY_ID if version >= 17 else None,
    )
    return FetchRequest(
        cluster_id="cluster",
        replica_id=-1 if has_state else 2,
        replica_state=ReplicaState(replica_id=2, replica_epoch=1 << 33) if has_state else NO_REPLICA,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=77,
        session_epoch=5,
        topics=(FetchTopic(topic=name, topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(ForgottenTopic(topic=name, topic_id=topic_id, partitions=(1, 2)),),
        rack_id="r1",
    )


def response_of(version: int, records: bytes | None) -> FetchResponse:
    by_id = version >= 13
    partition = PartitionData(
        partition_index=3,
        error_code=ErrorCode.NONE,
        high_watermark=99,
        last_stable_offset=98,
        log_start_offset=17,
        diverging_epoch=EpochEndOffset(epoch=7, end_offset=55),
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=10),
        aborted_transactions=None,
        preferred_read_replica=4,
        records=records,
    )
    return FetchResponse(
        throttle_time_ms=3,
        session_id=77,
        responses=(
            FetchableTopicResponse(
                topic="" if by_id else "orders", topic_id=TOPIC_ID if by_id else None, partitions=(partition,)
            ),
        ),
        node_endpoints=(NodeEndpoint(node_id=3, host="h3", port=9093, rack="r3"),) if version >= 16 else (),
    )


@VERSIONS_OF_FOLLOWERS
def test_what_a_follower_says_of_itself_reaches_its_leader(version: int) -> None:
    case = Case(ApiKey.FETCH, version, is_request=True)
    sent = request_of(version)
    body = b"".join(case.encode(sent))
    heard = case.decode(body)
    assert heard == sent
    assert isinstance(heard, FetchRequest)
    assert heard.follower_id == 2
    theirs = kio_message(case, body)
    assert kio_bytes(theirs) == body
    assert converted(theirs, FetchRequest) == sent


@VERSIONS_OF_FOLLOWERS
@pytest.mark.parametrize("records", [None, b"", b"r" * 300])
def test_what_a_leader_answers_reaches_its_follower(version: int, records: bytes | None) -> None:
    case = Case(ApiKey.FETCH, version, is_request=False)
    sent = response_of(version, records)
    body = b"".join(case.encode(sent))
    assert case.decode(body) == sent
    theirs = kio_message(case, body)
    assert kio_bytes(theirs) == body
    assert converted(theirs, FetchResponse) == sent


@VERSIONS_OF_FOLLOWERS
def test_records_of_a_large_answer_are_views_of_the_frame(version: int) -> None:
    case = Case(ApiKey.FETCH, version, is_request=False)
    records = bytes(8 << 20)
    frame = bytearray(b"".join(case.encode(response_of(version, records))))
    answer = case.decode(frame)
    assert isinstance(answer, FetchResponse)
    view = answer.responses[0].partitions[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert len(view) == len(records)


@VERSIONS_OF_FOLLOWERS
def test_records_of_an_answer_are_sent_as_they_are(version: int) -> None:
    case = Case(ApiKey.FETCH, version, is_request=False)
    records = memoryview(bytes(1 << 20))
    answer = response_of(version, None)
    (topic,) = answer.responses
    (partition,) = topic.partitions
    topic = dataclasses.replace(topic, partitions=(dataclasses.replace(partition, records=records),))
    pieces = case.encode(dataclasses.replace(answer, responses=(topic,)))
    assert any(piece is records for piece in pieces)

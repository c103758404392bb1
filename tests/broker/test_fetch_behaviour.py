"""Fetch against a running broker: sessions, long polls, limits, epochs."""

from __future__ import annotations

import os
import signal

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_versions import produced
from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.records import headers
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tidelog.wire.messages.fetch import PartitionData as FetchedPartition

pytestmark = pytest.mark.slow
VERSION = 12


def fetch(
    topic: str,
    *offsets: int,
    session: tuple[int, int] = (0, -1),
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    leader_epoch: int = -1,
    forgotten: tuple[int, ...] = (),
) -> FetchRequest:
    """A fetch of the first partitions of a topic, each from its offset."""
    partitions = tuple(
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
        )
        for index, offset in enumerate(offsets)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic=topic, partitions=partitions),) if partitions else (),
        forgotten_topics_data=(ForgottenTopic(topic=topic, partitions=forgotten),) if forgotten else (),
    )


def only(response: FetchResponse) -> FetchedPartition:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def create(conversation: Conversation, topic: str, partition_count: int) -> None:
    wanted = CreatableTopic(
        name=topic, num_partitions=partition_count, replication_factor=1, assignments=(), configs=()
    )
    (created,) = conversation.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=60_000), 7).topics
    assert created.error_code is ErrorCode.NONE


def first_fetch_without_errors(conversation: Conversation, partition_count: int) -> FetchResponse | None:
    """None while logs are still made: a topic is answered for after five seconds at most, on a slow disk before all of it is there."""
    full = conversation.ask(fetch("thousand", *[0] * partition_count, session=(0, 0)), VERSION)
    errors = {partition.error_code for topic in full.responses for partition in topic.partitions}
    return full if errors == {ErrorCode.NONE} else None


def test_an_idle_session_over_1000_partitions_answers_in_under_100_bytes(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        create(conversation, "thousand", 1000)
        full = eventually(lambda: first_fetch_without_errors(conversation, 1000), "all 1000 logs are there")
        assert full.session_id != 0
        assert sum(len(topic.partitions) for topic in full.responses) == 1000
        conversation.send(fetch("thousand", session=(full.session_id, 1)), VERSION)
        assert len(conversation.hear_frame()) < 100


def test_a_session_tells_only_what_moved(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        create(conversation, "session", 3)
        session_id = conversation.ask(fetch("session", 0, 0, 0, session=(0, 0)), VERSION).session_id
        conversation.ask(produced(conversation, 9, "session-other"), 9)
        assert conversation.ask(fetch("session", session=(session_id, 1)), VERSION).responses == ()
        answer = conversation.ask(fetch("session", session=(session_id, 5)), VERSION)
        assert answer.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        forgetting = fetch("session", session=(session_id, 2), forgotten=(0, 1, 2))
        assert conversation.ask(forgetting, VERSION).responses == ()
        unknown = conversation.ask(fetch("session", session=(session_id + 1, 1)), VERSION)
        assert unknown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_parked_fetch_wakes_when_a_record_arrives(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as reader, Conversation(tidelog.bootstrap) as writer:
        topic_id_of(writer, "parked")
        header = reader.send(fetch("parked", 0, max_wait_ms=15_000), VERSION)
        writer.ask(produced(writer, 9, "parked"), 9)
        answer = reader.hear(header)
        assert isinstance(answer, FetchResponse)
        assert only(answer).records


def test_a_record_that_arrives_together_with_a_fetch_wakes_it(tidelog: TidelogProcess) -> None:
    """Both are readable when the broker looks: the append happens between the fetch's look and its wait."""
    with Conversation(tidelog.bootstrap) as reader, Conversation(tidelog.bootstrap) as writer:
        topic_id_of(writer, "together")
        for offset in range(5):
            request = produced(writer, 9, "together")
            os.kill(tidelog.pid, signal.SIGSTOP)
            fetching = reader.send(fetch("together", offset, max_wait_ms=60_000), VERSION)
            producing = writer.send(request, 9)
            os.kill(tidelog.pid, signal.SIGCONT)
            answer = reader.hear(fetching)
            writer.hear(producing)
            assert isinstance(answer, FetchResponse)
            assert only(answer).records


def test_nobody_waits_for_more_than_one_answer_can_carry(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        for _ in range(2):
            conversation.ask(produced(conversation, 9, "greedy", value=bytes(900_000)), 9)
        greedy = fetch(
            "greedy", 0, max_wait_ms=60_000, max_bytes=50_000_000, partition_max_bytes=50_000_000, min_bytes=5_000_000
        )
        assert len(only(conversation.ask(greedy, VERSION)).records or b"") >= 1_000_000


def test_a_fetch_waits_until_enough_has_come(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as reader, Conversation(tidelog.bootstrap) as writer:
        topic_id_of(writer, "patient")
        header = reader.send(fetch("patient", 0, max_wait_ms=15_000, min_bytes=1_000), VERSION)
        for _ in range(20):
            writer.ask(produced(writer, 9, "patient", value=bytes(20)), 9)
        answer = reader.hear(header)
        assert isinstance(answer, FetchResponse)
        assert 1_000 <= len(only(answer).records or b"") < 1_200


def test_the_first_batch_comes_whole_however_small_the_limits(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.ask(produced(conversation, 9, "whole"), 9)
        conversation.ask(produced(conversation, 9, "whole"), 9)
        answer = conversation.ask(fetch("whole", 0, max_bytes=1, partition_max_bytes=1), VERSION)
        assert [header.base_offset for _, header in headers(only(answer).records or b"")] == [0]


def test_offsets_outside_of_the_log_are_out_of_range(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.ask(produced(conversation, 9, "range"), 9)
        for offset, code in (
            (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
            (1, ErrorCode.NONE),
            (2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ):
            assert only(conversation.ask(fetch("range", offset), VERSION)).error_code is code


def test_a_reader_of_another_epoch_is_fenced(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "epochs")
        ahead = only(conversation.ask(fetch("epochs", 0, leader_epoch=1), VERSION))
        same = only(conversation.ask(fetch("epochs", 0, leader_epoch=0), VERSION))
        assert (ahead.error_code, same.error_code) == (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NONE)


def test_an_unknown_topic_is_an_error_of_its_partition(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        answer = conversation.ask(fetch("no-such-topic", 0), VERSION)
        assert only(answer).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

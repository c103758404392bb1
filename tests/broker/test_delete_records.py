"""DeleteRecords against running brokers: what readers see at once, what is refused, and what a kill does not bring back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_fetch_behaviour import fetch, only
from tests.broker.test_versions import produced
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.slow


def deletion(topic: str, *offsets: tuple[int, int]) -> DeleteRecordsRequest:
    rows = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=rows),))


def answers(conversation: Conversation, topic: str, *offsets: tuple[int, int]) -> list[tuple[ErrorCode, int]]:
    (result,) = conversation.ask(deletion(topic, *offsets), 2).topics
    return [(row.error_code, row.low_watermark) for row in result.partitions]


def filled(conversation: Conversation, topic: str, count: int) -> None:
    for _ in range(count):
        conversation.ask(produced(conversation, 12, topic), 12)


def start_of(conversation: Conversation, topic: str) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),))
    return conversation.ask(request, 6).topics[0].partitions[0].offset


def test_readers_of_deleted_offsets_are_told_that_they_are_out_of_range(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        filled(conversation, "dr-range", 5)
        assert answers(conversation, "dr-range", (0, 3)) == [(ErrorCode.NONE, 3)]
        assert only(conversation.ask(fetch("dr-range", 2), 12)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        still_there = only(conversation.ask(fetch("dr-range", 3), 12))
        assert (still_there.error_code, still_there.log_start_offset) == (ErrorCode.NONE, 3)
        assert start_of(conversation, "dr-range") == 3


def test_offsets_that_cannot_be_deleted_to_are_refused_and_delete_nothing(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        filled(conversation, "dr-refused", 2)
        for offset in (3, -2, 2**62):
            assert answers(conversation, "dr-refused", (0, offset)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
        assert start_of(conversation, "dr-refused") == 0


def test_an_offset_below_the_beginning_changes_nothing_and_succeeds(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        filled(conversation, "dr-below", 3)
        assert answers(conversation, "dr-below", (0, -1)) == [(ErrorCode.NONE, 3)]
        assert answers(conversation, "dr-below", (0, 1)) == [(ErrorCode.NONE, 3)]


def test_unknown_partitions_and_partitions_named_twice_are_refused(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        filled(conversation, "dr-twice", 1)
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        twice = (ErrorCode.INVALID_REQUEST, -1)
        assert answers(conversation, "dr-twice", (0, 1), (7, 1), (0, 0)) == [twice, unknown, twice]
        assert answers(conversation, "dr-nobody", (0, 0)) == [unknown]


@pytest.mark.parametrize(
    ("policy", "answer"),
    [("compact", (ErrorCode.POLICY_VIOLATION, -1)), ("compact,delete", (ErrorCode.NONE, 0))],
)
def test_records_of_a_topic_that_is_only_compacted_cannot_be_deleted(
    tidelog: TidelogProcess, policy: str, answer: tuple[ErrorCode, int]
) -> None:
    topic = f"dr-{policy.replace(',', '-')}"
    config = CreatableTopicConfig(name="cleanup.policy", value=policy)
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=(config,))
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.ask(CreateTopicsRequest(topics=(wanted,)), 7)
        assert answers(conversation, topic, (0, -1)) == [answer]


@pytest.mark.parametrize("is_namesake", [False, True])
def test_deleted_records_do_not_come_back_after_a_kill(tmp_path: Path, *, is_namesake: bool) -> None:
    with TidelogProcess(tmp_path) as broker, Conversation(broker.bootstrap) as conversation:
        if is_namesake:  # whose checkpoints are not believed until they were written again
            filled(conversation, "t", 3)
            conversation.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=10_000), 5)
        filled(conversation, "t", 5)
        assert answers(conversation, "t", (0, 4)) == [(ErrorCode.NONE, 4)]
        broker.kill()
    with TidelogProcess(tmp_path) as broker, Conversation(broker.bootstrap) as conversation:
        topic_id_of(conversation, "t")
        assert start_of(conversation, "t") == 4
        assert only(conversation.ask(fetch("t", 3), 12)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        filled(conversation, "t", 1)
        assert only(conversation.ask(fetch("t", 4), 12)).high_watermark == 6

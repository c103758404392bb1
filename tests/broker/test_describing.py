"""What a broker tells of itself: epochs, producers, directories, the cluster, topics in pages, resources."""

from __future__ import annotations

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_versions import produced
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode
from tidelog.records import RecordBatchBuilder
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tidelog.wire.messages.describe_topic_partitions import TopicRequest as AskedTopic
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.slow


def create(conversation: Conversation, topic: str, partitions: int) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    (created,) = conversation.ask(CreateTopicsRequest(topics=(wanted,)), 7).topics
    assert created.error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("index", "current", "epoch", "answer"),
    [
        (0, -1, 0, (ErrorCode.NONE, 0, 1)),
        (0, 0, 0, (ErrorCode.NONE, 0, 1)),
        (0, -1, -1, (ErrorCode.NONE, -1, -1)),
        (0, 7, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (0, -5, 0, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        (3, -1, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_told_to_readers_of_the_current_one(
    tidelog: TidelogProcess, index: int, current: int, epoch: int, answer: tuple[ErrorCode, int, int]
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic = f"epochs-{index}-{current}-{epoch}"
        conversation.ask(produced(conversation, 12, topic), 12)
        asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),)
        )
        (found,) = conversation.ask(request, 4).topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == answer


def producers(conversation: Conversation, topic: str, index: int = 0) -> PartitionResponse:
    asked = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(index,)),))
    return conversation.ask(asked, 0).topics[0].partitions[0]


def test_producers_are_shown_as_the_log_remembers_them(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "producers")
        builder = RecordBatchBuilder(producer_id=77, producer_epoch=3, base_sequence=0)
        for timestamp_ms in (1_000, 2_000):
            builder.append(timestamp_ms=timestamp_ms, key=None, value=b"v")
        data = PartitionProduceData(index=0, records=builder.build())
        topics = (TopicProduceData(name="producers", partition_data=(data,)),)
        conversation.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
        assert producers(conversation, "producers").active_producers == (
            ProducerState(
                producer_id=77, producer_epoch=3, last_sequence=1, last_timestamp=2_000, coordinator_epoch=-1
            ),
        )


def test_producers_of_partitions_that_are_not_there_are_refused(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        assert producers(conversation, "no-such-topic").error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert producers(conversation, "no/topic").error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_only_brokers_have_endpoints(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        controllers = conversation.ask(DescribeClusterRequest(endpoint_type=2), 1)
        unknown = conversation.ask(DescribeClusterRequest(endpoint_type=9), 2)
        assert controllers.error_code is ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert unknown.error_code is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        plain = conversation.ask(DescribeClusterRequest(), 2)
        assert (plain.error_code, plain.cluster_authorized_operations) == (ErrorCode.NONE, -(2**31))


def test_directories_show_only_the_partitions_asked_for(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        create(conversation, "dirs", 3)
        asked = (
            DescribableLogDirTopic(topic="dirs", partitions=(2, 0, 9)),
            DescribableLogDirTopic(topic="no", partitions=(0,)),
        )
        (directory,) = conversation.ask(DescribeLogDirsRequest(topics=asked), 4).results
        assert directory.log_dir == str(tidelog.log_dir)
        shown = [(topic.name, row.partition_index) for topic in directory.topics for row in topic.partitions]
        assert shown == [("dirs", 0), ("dirs", 2)]
        (nothing,) = conversation.ask(DescribeLogDirsRequest(topics=()), 4).results
        assert (nothing.error_code, nothing.topics) == (ErrorCode.NONE, ())


def page(
    conversation: Conversation, *topics: str, limit: int, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    asked = tuple(AskedTopic(name=name) for name in topics)
    request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit, cursor=cursor)
    return conversation.ask(request, 0)


def shown_on(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]


def test_topics_come_in_pages_by_name(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        names = ("page-b", "page-a", "page-c")
        for name in names:
            create(conversation, name, 3)
        pages: list[list[tuple[str | None, list[int]]]] = []
        cursor = None
        while cursor is not None or not pages:
            answer = page(conversation, *names, limit=4, cursor=cursor)
            pages.append(shown_on(answer))
            cursor = answer.next_cursor
        assert pages == [
            [("page-a", [0, 1, 2]), ("page-b", [0])],
            [("page-b", [1, 2]), ("page-c", [0, 1])],
            [("page-c", [2])],
        ]


def test_a_page_that_ends_with_a_topic_points_to_the_beginning_of_the_next(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        create(conversation, "edge-a", 2)
        create(conversation, "edge-b", 2)
        answer = page(conversation, "edge-a", "edge-b", limit=2)
        assert answer.next_cursor == Cursor(topic_name="edge-b", partition_index=0)
        whole = page(conversation, "edge-a", "edge-b", limit=4)
        assert (shown_on(whole), whole.next_cursor) == ([("edge-a", [0, 1]), ("edge-b", [0, 1])], None)
        assert shown_on(page(conversation, "edge-a", limit=0)) == [("edge-a", [0])]


def test_all_topics_are_paged_when_none_is_named(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        create(conversation, "zz-all", 1)
        answer = page(conversation, limit=2000, cursor=Cursor(topic_name="zz-all", partition_index=0))
        assert shown_on(answer)[0] == ("zz-all", [0])


def test_topics_that_are_not_there_have_their_reason(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        found = page(conversation, "page-nobody", "no/name", limit=10).topics
        assert {topic.name: topic.error_code for topic in found} == {
            "page-nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "no/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }


@pytest.mark.parametrize(("topic", "index"), [("elsewhere", 0), ("cursed", -1)])
def test_a_cursor_that_points_nowhere_is_refused(tidelog: TidelogProcess, topic: str, index: int) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "cursed")
        answer = page(conversation, "cursed", limit=10, cursor=Cursor(topic_name=topic, partition_index=index))
        assert [row.error_code for row in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_resources_are_listed_by_type(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, "listed")
        brokers = conversation.ask(ListConfigResourcesRequest(resource_types=(4,)), 1)
        assert [(row.resource_name, row.resource_type) for row in brokers.config_resources] == [("1", 4)]
        topics = conversation.ask(ListConfigResourcesRequest(resource_types=(2, 16)), 1).config_resources
        assert "listed" in {row.resource_name for row in topics}
        assert {row.resource_type for row in topics} == {2}
        unknown = conversation.ask(ListConfigResourcesRequest(resource_types=(2, 3)), 1)
        assert (unknown.error_code, unknown.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())

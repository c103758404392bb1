"""What a coordinator says to producers that ask for the impossible: Kafka's error codes, and nothing happens to anybody's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.test_transactions_served import Producer
from tests.broker.transaction_talk import (
    NEWEST_OF_CLIENTS,
    Writer,
    add,
    codes,
    described,
    init,
    ready,
    until_state,
    wait_for_transactions,
)
from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogProcess
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.records import Marker, MarkerType, read_marker
from tidelog.records.batch import headers
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest

pytestmark = pytest.mark.slow

TOPIC = 2


@pytest.fixture
def conversation(tidelog: TidelogProcess) -> Iterator[Conversation]:
    with Conversation(tidelog.bootstrap) as conversation:
        yield conversation


def markers(conversation: Conversation, topic: str, index: int = 0) -> list[tuple[int, int, MarkerType]]:
    """The markers of a partition: producer id, epoch, and what was decided."""
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=topic, partitions=(partition,)),))
    data = bytes(conversation.ask(request, 12).responses[0].partitions[0].records or b"")
    found: list[tuple[int, int, MarkerType]] = []
    for position, header in headers(data):
        if header.is_control:
            marker: Marker = read_marker(data[position : position + header.size])
            found.append((header.producer_id, header.producer_epoch, marker.type))
    return found


# Ids.


def test_the_empty_id_has_no_transactions(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    wait_for_transactions(conversation, topic)
    nobody = Writer("", 1, 1)
    assert init(conversation, "").error_code is ErrorCode.INVALID_REQUEST
    assert add(conversation, nobody, topic, 0) is ErrorCode.INVALID_REQUEST
    assert conversation.ask(nobody.end(), 4).error_code is ErrorCode.INVALID_REQUEST
    assert conversation.ask(nobody.add_offsets("g"), 3).error_code is ErrorCode.INVALID_REQUEST
    assert described(conversation, "").error_code is ErrorCode.INVALID_REQUEST


def test_an_id_nobody_knows_is_no_ones(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    wait_for_transactions(conversation, topic)
    stranger = Writer(topic, 1, 1)
    assert add(conversation, stranger, topic, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert conversation.ask(stranger.end(), 4).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert conversation.ask(stranger.end(), 5).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert described(conversation, topic).error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_another_producers_id_is_no_ones_either(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    stranger = writer._replace(producer_id=writer.producer_id + 100_000)
    assert add(conversation, stranger, topic, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert conversation.ask(stranger.end(), 4).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert described(conversation, topic).transaction_state == "Empty"


def test_an_earlier_incarnation_is_fenced_on_every_call_and_its_transaction_aborted(
    conversation: Conversation, topic: str
) -> None:
    topic_id_of(conversation, topic)
    zombie = ready(conversation, topic)
    assert add(conversation, zombie, topic, 0) is ErrorCode.NONE
    assert init(conversation, topic).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    writer = ready(conversation, topic)
    assert writer.producer_epoch > zombie.producer_epoch
    assert add(conversation, zombie, topic, 0) is ErrorCode.PRODUCER_FENCED
    assert conversation.ask(zombie.end(), 4).error_code is ErrorCode.PRODUCER_FENCED
    assert conversation.ask(zombie.end(), 5).error_code is ErrorCode.PRODUCER_FENCED
    assert conversation.ask(zombie.add_offsets("g"), 4).error_code in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    held = {"producer_id": zombie.producer_id, "producer_epoch": zombie.producer_epoch}
    assert init(conversation, topic, **held).error_code is ErrorCode.PRODUCER_FENCED
    ((producer_id, epoch, outcome),) = markers(conversation, topic)
    assert (producer_id, outcome) == (zombie.producer_id, MarkerType.ABORT)
    assert zombie.producer_epoch < epoch <= writer.producer_epoch


@pytest.mark.parametrize("changed", [{"producer_id": 5}, {"producer_epoch": 5}], ids=["no epoch", "no producer id"])
def test_half_of_an_identity_is_none(conversation: Conversation, topic: str, changed: dict[str, int]) -> None:
    wait_for_transactions(conversation, topic)
    assert init(conversation, topic, **changed).error_code is ErrorCode.INVALID_REQUEST
    assert init(conversation, None, **changed).error_code is ErrorCode.INVALID_REQUEST
    assert described(conversation, topic).error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0, 900_001, 2**31 - 1])
def test_an_absurd_timeout_is_refused(conversation: Conversation, topic: str, timeout_ms: int) -> None:
    wait_for_transactions(conversation, topic)
    refused = init(conversation, topic, transaction_timeout_ms=timeout_ms)
    assert refused.error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert described(conversation, topic).error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_two_phase_commit_must_be_allowed_first(conversation: Conversation, topic: str) -> None:
    wait_for_transactions(conversation, topic)
    refused = init(conversation, topic, 6, enable2_pc=True)
    assert refused.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert init(conversation, topic, 6, keep_prepared_txn=True).error_code is ErrorCode.INVALID_REQUEST
    assert described(conversation, topic).error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# Partitions.


def test_one_partition_that_does_not_exist_keeps_the_others_out(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    asked = writer.add((topic, (0, 7)), (f"{topic}-missing", (0,)))
    said = conversation.ask(asked, NEWEST_OF_CLIENTS).results_by_topic_v3_and_below
    assert codes(said) == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (f"{topic}-missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert described(conversation, topic).transaction_state == "Empty"


def test_clients_may_not_write_to_internal_topics_and_leaders_may_on_their_behalf(
    conversation: Conversation, topic: str
) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    asked = (topic, (0,)), ("__transaction_state", (0,))
    said = conversation.ask(writer.add(*asked), NEWEST_OF_CLIENTS).results_by_topic_v3_and_below
    assert codes(said) == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    (result,) = conversation.ask(writer.asked_by_leader(*asked), 5).results_by_transaction
    assert set(codes(result.topic_results).values()) == {ErrorCode.NONE}


def test_a_partition_that_is_named_twice_is_answered_once(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    said = conversation.ask(writer.add((topic, (0, 0)), (topic, (0,))), NEWEST_OF_CLIENTS).results_by_topic_v3_and_below
    assert [len(one.results_by_partition) for one in said] == [1]
    assert codes(said) == {(topic, 0): ErrorCode.NONE}


def test_no_partitions_are_no_transaction(conversation: Conversation, topic: str) -> None:
    writer = ready(conversation, topic)
    assert conversation.ask(writer.add(), NEWEST_OF_CLIENTS).results_by_topic_v3_and_below == ()
    assert described(conversation, topic).transaction_state == "Empty"


def test_transactions_of_one_request_are_answered_each_for_itself(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    first, second = ready(conversation, f"{topic}-1"), ready(conversation, f"{topic}-2")
    strange = second._replace(producer_epoch=second.producer_epoch + 7)
    asked = (
        first.asked_by_leader((topic, (0,))).transactions
        + strange.asked_by_leader((topic, (0,))).transactions
        + Writer("", 1, 1).asked_by_leader((topic, (0,))).transactions
    )
    results = conversation.ask(AddPartitionsToTxnRequest(transactions=asked), 5).results_by_transaction
    assert [(one.transactional_id, set(codes(one.topic_results).values())) for one in results] == [
        (f"{topic}-1", {ErrorCode.NONE}),
        (f"{topic}-2", {ErrorCode.PRODUCER_FENCED}),
        ("", {ErrorCode.INVALID_REQUEST}),
    ]


def test_offsets_have_the_topic_of_groups_made_where_there_is_none(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path / "data") as process, Conversation(process.bootstrap) as conversation:
        writer = ready(conversation, "x")
        assert conversation.ask(writer.add_offsets("g"), 3).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        eventually(
            lambda: conversation.ask(writer.add_offsets("g"), 3).error_code is ErrorCode.NONE, "the topic is there"
        )


# Ends.


def test_without_a_transaction_there_is_nothing_to_end(conversation: Conversation, topic: str) -> None:
    writer = ready(conversation, topic)
    assert conversation.ask(writer.end(is_committed=True), 4).error_code is ErrorCode.INVALID_TXN_STATE
    assert conversation.ask(writer.end(is_committed=False), 4).error_code is ErrorCode.INVALID_TXN_STATE
    assert conversation.ask(writer.end(is_committed=True), 5).error_code is ErrorCode.INVALID_TXN_STATE
    bumped = conversation.ask(writer.end(is_committed=False), 5)
    assert (bumped.error_code, bumped.producer_epoch) == (ErrorCode.NONE, writer.producer_epoch + 1)


def test_an_end_that_is_told_twice_has_happened_once_and_its_opposite_is_refused(
    conversation: Conversation, topic: str
) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    assert add(conversation, writer, topic, 0) is ErrorCode.NONE
    assert conversation.ask(writer.end(), 4).error_code is ErrorCode.NONE
    until_state(conversation, topic, "CompleteCommit")
    assert conversation.ask(writer.end(), 4).error_code is ErrorCode.NONE
    assert conversation.ask(writer.end(is_committed=False), 4).error_code is ErrorCode.INVALID_TXN_STATE
    assert markers(conversation, topic) == [(writer.producer_id, writer.producer_epoch, MarkerType.COMMIT)]


def test_an_end_with_an_epoch_of_its_own_is_answered_the_same_again(conversation: Conversation, topic: str) -> None:
    topic_id_of(conversation, topic)
    writer = ready(conversation, topic)
    (joined,) = conversation.ask(writer.asked_by_leader((topic, (0,))), 5).results_by_transaction
    assert set(codes(joined.topic_results).values()) == {ErrorCode.NONE}
    ended = conversation.ask(writer.end(), 5)
    assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, writer.producer_epoch + 1)
    until_state(conversation, topic, "CompleteCommit")
    again = conversation.ask(writer.end(), 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (
        ErrorCode.NONE,
        ended.producer_id,
        ended.producer_epoch,
    )
    assert markers(conversation, topic) == [(writer.producer_id, writer.producer_epoch + 1, MarkerType.COMMIT)]


def test_markers_are_in_every_partition_of_the_transaction_and_in_no_other(
    conversation: Conversation, topic: str
) -> None:
    wide = CreatableTopic(name=topic, num_partitions=20, replication_factor=1, assignments=(), configs=())
    conversation.ask(CreateTopicsRequest(topics=(wide,), timeout_ms=10_000), 7)
    writer = ready(conversation, topic)
    eventually(lambda: add(conversation, writer, topic, *range(0, 20, 2)) is ErrorCode.NONE, "the topic is known")
    assert conversation.ask(writer.end(is_committed=False), 4).error_code is ErrorCode.NONE
    until_state(conversation, topic, "CompleteAbort")
    expected = [(writer.producer_id, writer.producer_epoch, MarkerType.ABORT)]
    assert [markers(conversation, topic, index) for index in range(20)] == [expected, []] * 10


def test_a_topic_that_is_deleted_in_a_transaction_does_not_keep_it_from_completing(
    conversation: Conversation, topic: str
) -> None:
    topic_id_of(conversation, topic)
    topic_id_of(conversation, f"{topic}-doomed")
    writer = ready(conversation, topic)
    asked = writer.add((topic, (0,)), (f"{topic}-doomed", (0,)))
    said = conversation.ask(asked, NEWEST_OF_CLIENTS).results_by_topic_v3_and_below
    assert set(codes(said).values()) == {ErrorCode.NONE}
    doomed = DeleteTopicState(name=f"{topic}-doomed", topic_id=None)
    (deleted,) = conversation.ask(DeleteTopicsRequest(topics=(doomed,), timeout_ms=10_000), 6).responses
    assert deleted.error_code is ErrorCode.NONE
    assert conversation.ask(writer.end(), 4).error_code is ErrorCode.NONE
    until_state(conversation, topic, "CompleteCommit")
    assert markers(conversation, topic) == [(writer.producer_id, writer.producer_epoch, MarkerType.COMMIT)]


def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    soon = ("-X", "transaction.abort.timed.out.transaction.cleanup.interval.ms=100")
    with TidelogProcess(tmp_path / "data", *soon) as process, Conversation(process.bootstrap) as conversation:
        producer = Producer(conversation, "t", "x")
        answer = init(conversation, "x", transaction_timeout_ms=300)
        producer.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        writer = Writer("x", *producer.identity)
        assert add(conversation, writer, "t", 0) is ErrorCode.NONE
        assert producer.produce(b"a", 0, 11) is ErrorCode.NONE
        until_state(conversation, "x", "CompleteAbort")
        assert conversation.ask(writer.end(), 4).error_code is ErrorCode.PRODUCER_FENCED
        assert producer.read() == ([b"a"], 1)


# Finding and listing.


def test_the_coordinator_of_an_id_is_named_and_a_strange_kind_of_key_refused(
    conversation: Conversation, topic: str
) -> None:
    wait_for_transactions(conversation, topic)
    one = conversation.ask(FindCoordinatorRequest(key=topic, key_type=1), 3)
    assert (one.error_code, one.node_id) == (ErrorCode.NONE, 1)
    (many,) = conversation.ask(FindCoordinatorRequest(coordinator_keys=(topic,), key_type=1), 4).coordinators
    assert (many.key, many.error_code, many.node_id) == (topic, ErrorCode.NONE, 1)
    (strange,) = conversation.ask(FindCoordinatorRequest(coordinator_keys=(topic,), key_type=7), 4).coordinators
    assert strange.error_code is ErrorCode.INVALID_REQUEST


def test_a_pattern_that_is_none_is_refused(conversation: Conversation, topic: str) -> None:
    ready(conversation, topic)
    listed = conversation.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert listed.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_topic_is_made_as_the_settings_say(conversation: Conversation, topic: str) -> None:
    wait_for_transactions(conversation, topic)
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="__transaction_state")
    (result,) = conversation.ask(DescribeConfigsRequest(resources=(resource,)), 4).results
    found = {one.name: one.value for one in result.configs}
    assert {name: found[name] for name in ("cleanup.policy", "compression.type", "min.insync.replicas")} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
    }
    assert found["unclean.leader.election.enable"] == "false"


def test_an_older_level_of_the_feature_is_announced_where_it_is_set(tmp_path: Path) -> None:
    level = ("-X", "tidelog.transaction.version=0")
    with TidelogProcess(tmp_path / "data", *level) as process, Conversation(process.bootstrap) as conversation:
        told = conversation.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
        assert [one.name for one in told.finalized_features] == ["group.version"]
        assert [(one.name, one.max_version) for one in told.supported_features][1] == ("transaction.version", 2)


def test_a_group_without_a_name_is_one_for_offsets_too(conversation: Conversation, topic: str) -> None:
    writer = ready(conversation, topic)
    asked = AddOffsetsToTxnRequest(**writer._asdict(), group_id="")
    eventually(lambda: conversation.ask(asked, 3).error_code is ErrorCode.NONE, "its partition is part of it")

"""What the controller decides, by literal values."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.controller.clusters import controller, state, topic
from tidelog.controller import (
    NO_BROKER,
    Controller,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionState,
    Reconsider,
    TopicResult,
)
from tidelog.controller.layout import encode_uuid
from tidelog.model import ErrorCode, TopicPartition
from tidelog.registry import Create, Set

T0 = TopicPartition("t", 0)


def created(deciding: Controller, *topics: NewTopic) -> list[TopicResult]:
    return list(deciding.decide(CreateTopics(topics=topics)).results)


def error_of(result: TopicResult) -> tuple[ErrorCode, str | None]:
    assert result.error is not None
    return result.error.code, result.error.message


def test_new_topic_gets_the_brokers_defaults() -> None:
    deciding = controller(num_partitions="3")
    decision = deciding.decide(CreateTopics(topics=[NewTopic(name="t")]))
    [result] = decision.results
    assert (result.error, result.partition_count, result.replication_factor) == (None, 3, 1)
    image = decision.image.topics["t"]
    assert result.topic_id == image.topic_id
    assert image.partitions[2] == PartitionState(
        topic_id=image.topic_id, assignment=(1,), leader=1, leader_epoch=0, isr=(1,), partition_epoch=0
    )


def test_deciding_changes_nothing() -> None:
    deciding = controller()
    before = deciding.image
    deciding.decide(CreateTopics(topics=[NewTopic(name="t")]))
    assert deciding.image is before


def test_topic_is_created_in_one_write() -> None:
    deciding = controller()
    decision = deciding.decide(CreateTopics(topics=[NewTopic(name="t", configs={"retention.ms": "5"})]))
    [write] = decision.writes
    assert [operation.path for operation in write] == [
        "/config/topics/t",
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
    ]
    contents = [json.loads(one.data) for one in write if isinstance(one, Create) and one.data]
    assert contents == [
        {"version": 1, "config": {"retention.ms": "5"}},
        {
            "version": 3,
            "partitions": {"0": [1]},
            "adding_replicas": {},
            "removing_replicas": {},
            "topic_id": encode_uuid(decision.image.topics["t"].topic_id),
        },
        {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 5, "isr": [1]},
    ]


def test_large_topic_is_written_in_bounded_pieces_of_which_the_first_says_what_it_is() -> None:
    decision = controller().decide(CreateTopics(topics=[NewTopic(name="t", num_partitions=450)]))
    writes = list(decision.writes)
    assert [len(write) for write in writes] == [403, 400, 100]
    assert [operation.path for operation in writes[0][:2]] == ["/config/topics/t", "/brokers/topics/t"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("a" * 250, f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a/b", "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "Topic name is invalid: 'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("\u00e9", "Topic name is invalid: '\u00e9' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)  # fmt: skip
def test_bad_name_is_refused(name: str, message: str) -> None:
    [result] = created(controller(), NewTopic(name=name))
    assert error_of(result) == (ErrorCode.INVALID_TOPIC_EXCEPTION, message)


@pytest.mark.parametrize("name", ["a", "a" * 249, "A.b_c-9", "...", "__consumer_offsets"])
def test_good_name_is_accepted(name: str) -> None:
    [result] = created(controller(), NewTopic(name=name))
    assert result.error is None


def test_topic_that_exists_is_refused() -> None:
    [result] = created(controller(topic("t", state((1,)))), NewTopic(name="t"))
    assert error_of(result) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


def test_name_that_differs_only_in_dot_and_underscore_is_refused() -> None:
    [result] = created(controller(topic("a_b.c", state((1,)))), NewTopic(name="a.b_c"))
    assert error_of(result) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a.b_c' collides with existing topics: a_b.c")


def test_topics_of_one_request_collide_too() -> None:
    first, second, third = created(controller(), NewTopic(name="a.b"), NewTopic(name="a_b"), NewTopic(name="c"))
    assert first.error is None
    assert error_of(second)[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert third.error is None


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            NewTopic(name="t", num_partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic(name="t", num_partitions=-2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic(name="t", replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic(name="t", replication_factor=4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            NewTopic(name="t", num_partitions=1, assignments={0: (1,)}),
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
        (
            NewTopic(name="t", assignments={1: (1,)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic(name="t", assignments={0: (1, 1)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "duplicate replica assignment found for partition 0: [1, 1]",
        ),
        (
            NewTopic(name="t", assignments={0: (1, 9)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "unknown broker(s) for partition 0: [9]",
        ),
        (
            NewTopic(name="t", assignments={0: ()}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partition 0 has no replica",
        ),
        (
            NewTopic(name="t", assignments={0: (1,), 1: (1, 2)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "all partitions should have the same number of replicas",
        ),
        (
            NewTopic(name="t", configs={"retention.ms": "soon"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 'soon' for configuration retention.ms: "
            "accepted is a whole number of at least 0, or -1 for no limit",
        ),
        (
            NewTopic(name="t", configs={"retention.mss": "5"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown configuration 'retention.mss' (did you mean retention.ms?)",
        ),
        (
            NewTopic(name="t", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            NewTopic(name="t", num_partitions=51),
            ErrorCode.POLICY_VIOLATION,
            "51 partitions are more than tidelog.topic.partitions.max = 50.",
        ),
    ],
)
def test_impossible_topic_is_refused_with_the_reason(wanted: NewTopic, code: ErrorCode, message: str) -> None:
    deciding = controller(brokers=3, tidelog_topic_partitions_max="50")
    [result] = created(deciding, wanted)
    assert error_of(result) == (code, message)


def test_one_bad_topic_does_not_spoil_the_others() -> None:
    decision = controller().decide(CreateTopics(topics=[NewTopic(name="!"), NewTopic(name="t")]))
    assert [result.error is None for result in decision.results] == [False, True]
    assert list(decision.image.topics) == ["t"]


def test_own_assignment_is_kept_in_order() -> None:
    decision = controller(brokers=3).decide(
        CreateTopics(topics=[NewTopic(name="t", assignments={1: (2, 3), 0: (3, 1)})])
    )
    partitions = decision.image.topics["t"].partitions
    assert [(one.assignment, one.leader, one.isr) for one in partitions.values()] == [
        ((3, 1), 3, (3, 1)),
        ((2, 3), 2, (2, 3)),
    ]


def test_replicas_are_spread_over_all_brokers() -> None:
    decision = controller(brokers=3).decide(
        CreateTopics(topics=[NewTopic(name="t", num_partitions=3, replication_factor=2)])
    )
    assert sorted(one.leader for one in decision.image.topics["t"].partitions.values()) == [1, 2, 3]


def test_deletion_begins_with_a_mark_and_the_topic_is_gone_for_all() -> None:
    deciding = controller(topic("t", state((1,))), topic("u", state((1,))))
    decision = deciding.decide(DeleteTopics(names=["t", "missing"]))
    gone, missing = decision.results
    assert (gone.error, gone.topic_id) == (None, deciding.image.topics["t"].topic_id)
    assert error_of(missing) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert list(decision.writes) == [(Create("/admin/delete_topics/t"),)]
    assert list(decision.image.topics) == ["u"]


def test_topic_named_twice_is_marked_once() -> None:
    decision = controller(topic("t", state((1,)))).decide(DeleteTopics(names=["t", "t"]))
    assert list(decision.writes) == [(Create("/admin/delete_topics/t"),)]


def test_deletion_can_be_disabled() -> None:
    deciding = controller(topic("t", state((1,))), delete_topic_enable="false")
    decision = deciding.decide(DeleteTopics(names=["t"]))
    assert error_of(decision.results[0])[0] is ErrorCode.TOPIC_DELETION_DISABLED
    assert (list(decision.writes), list(decision.image.topics)) == ([], ["t"])


def elected(before: PartitionState, *, brokers: int, configs: Mapping[str, str] | None = None) -> PartitionState:
    deciding = controller(topic("t", before, configs=configs), brokers=brokers)
    return deciding.decide(Reconsider(partitions=[T0])).image.topics["t"].partitions[0]


def test_restart_of_the_leader_is_an_election() -> None:
    before = state((1,), epoch=3)
    decision = controller(topic("t", before)).decide(Reconsider(partitions=[T0], restarted=frozenset({1})))
    after = decision.image.topics["t"].partitions[0]
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 4, before.partition_epoch + 1)
    [[operation]] = decision.writes
    assert isinstance(operation, Set)
    assert (operation.path, operation.version) == ("/brokers/topics/t/partitions/0/state", before.partition_epoch)
    assert json.loads(operation.data)["leader_epoch"] == 4


def test_live_leader_is_left_alone() -> None:
    deciding = controller(topic("t", state((1, 2))), brokers=2)
    decision = deciding.decide(Reconsider(partitions=[T0]))
    assert (list(decision.writes), decision.image) == ([], deciding.image)


def test_first_live_member_of_the_isr_in_order_of_assignment_leads() -> None:
    after = elected(state((9, 1, 3, 2), isr=(2, 3, 9)), brokers=3)
    assert (after.leader, after.isr, after.leader_epoch) == (3, (2, 3), 4)


def test_nobody_leads_while_only_dead_replicas_are_in_sync() -> None:
    after = elected(state((9, 1), isr=(9,)), brokers=1)
    assert (after.leader, after.isr, after.leader_epoch) == (NO_BROKER, (9,), 4)
    assert elected(after, brokers=1) == after


def test_unclean_election_takes_a_live_replica_where_the_topic_allows_it() -> None:
    after = elected(state((9, 1), isr=(9,)), brokers=1, configs={"unclean.leader.election.enable": "true"})
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), 4)

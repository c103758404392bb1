"""Partitions that move: starting, completing, overriding and cancelling, by literal values (KIP-455)."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.controller.clusters import T0, controller, state, topic
from tidelog.controller import (
    NO_BROKER,
    Controller,
    CreatePartitions,
    Decision,
    DeleteTopics,
    MorePartitions,
    PartitionState,
    Reassign,
    Reconsider,
)
from tidelog.controller.reassignment import Reassignment, running
from tidelog.model import ErrorCode, TopicPartition
from tidelog.registry import Set


def moved(before: PartitionState, target: tuple[int, ...] | None, *, brokers: int = 4) -> PartitionState:
    decision = reassign(controller(topic("t", before), brokers=brokers), target)
    assert decision.errors == (None,)
    return decision.image.topics["t"].partitions[0]


def reassign(deciding: Controller, target: tuple[int, ...] | None) -> Decision:
    return deciding.decide(Reassign(wanted={T0: target}))


def in_motion(assignment: tuple[int, ...], *, adding: tuple[int, ...], removing: tuple[int, ...]) -> PartitionState:
    origin = tuple(one for one in assignment if one not in adding)
    before = state(assignment, leader=origin[0], isr=origin)
    return dataclasses.replace(before, adding=adding, removing=removing)


def told(after: PartitionState) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return after.assignment, after.adding, after.removing


def test_start_puts_the_target_first_and_keeps_the_others_under_a_new_epoch() -> None:
    after = moved(state((1, 2, 3)), (4, 2, 1))
    assert told(after) == ((4, 2, 1, 3), (4,), (3,))
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2, 3), 4, 8)


def test_start_is_one_write_of_state_and_assignment() -> None:
    [write] = reassign(controller(topic("t", state((1, 2)), state((2, 1))), brokers=4), (3, 4)).writes
    assert [one.path for one in write] == ["/brokers/topics/t/partitions/0/state", "/brokers/topics/t"]
    assert isinstance(write[0], Set)
    assert isinstance(write[1], Set)
    assert (write[0].version, json.loads(write[0].data)["leader_epoch"]) == (7, 4)
    stored = json.loads(write[1].data)
    assert stored["partitions"] == {"0": [3, 4, 1, 2], "1": [2, 1]}
    assert (stored["adding_replicas"], stored["removing_replicas"]) == ({"0": [3, 4]}, {"0": [1, 2]})


def test_another_order_is_complete_at_once() -> None:
    after = moved(state((1, 2, 3)), (3, 2, 1))
    assert (told(after), after.leader, after.leader_epoch) == (((3, 2, 1), (), ()), 1, 4)


def test_fewer_replicas_that_are_all_in_sync_are_complete_at_once() -> None:
    after = moved(state((1, 2, 3)), (3,))
    assert (told(after), after.leader, after.isr, after.leader_epoch) == (((3,), (), ()), 3, (3,), 4)


def test_target_that_is_there_already_changes_nothing() -> None:
    deciding = controller(topic("t", state((1, 2))), brokers=2)
    decision = reassign(deciding, (1, 2))
    assert (decision.errors, list(decision.writes), decision.image) == ((None,), [], deciding.image)


def reconsidered(before: PartitionState, *, brokers: int = 4) -> PartitionState:
    deciding = controller(topic("t", before), brokers=brokers)
    return deciding.decide(Reconsider(partitions=[T0])).image.topics["t"].partitions[0]


def test_reassignment_is_complete_when_all_of_the_target_are_in_sync() -> None:
    running_one = in_motion((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    assert reconsidered(running_one) is not None
    half = dataclasses.replace(running_one, isr=(1, 2, 3))
    assert reconsidered(half) == half
    whole = dataclasses.replace(running_one, isr=(1, 2, 3, 4))
    after = reconsidered(whole)
    assert (told(after), after.leader, after.isr) == (((3, 4), (), ()), 3, (3, 4))
    assert (after.leader_epoch, after.partition_epoch) == (4, 8)


def test_leader_in_the_target_leads_on() -> None:
    running_one = dataclasses.replace(in_motion((3, 1, 2), adding=(3,), removing=(2,)), isr=(1, 2, 3))
    after = reconsidered(running_one)
    assert (told(after), after.leader, after.isr) == (((3, 1), (), ()), 1, (1, 3))


def test_reassignment_is_not_complete_when_one_of_the_target_has_just_died() -> None:
    running_one = dataclasses.replace(in_motion((4, 1), adding=(4,), removing=(1,)), isr=(1, 4))
    after = reconsidered(running_one, brokers=3)
    assert (told(after), after.leader, after.isr) == (((4, 1), (4,), (1,)), 1, (1,))


def test_cancelling_restores_the_others_and_drops_what_was_added() -> None:
    running_one = dataclasses.replace(in_motion((4, 2, 1, 3), adding=(4,), removing=(3,)), isr=(1, 2, 3, 4))
    started = dataclasses.replace(running_one, leader=2)
    after = moved(started, None)
    assert (told(after), after.leader, after.isr, after.leader_epoch) == (((2, 1, 3), (), ()), 2, (1, 2, 3), 4)


def test_cancelling_moves_the_leader_back() -> None:
    running_one = dataclasses.replace(in_motion((4, 1), adding=(4,), removing=(1,)), isr=(1, 4), leader=4)
    after = moved(running_one, None)
    assert (told(after), after.leader, after.isr) == (((1,), (), ()), 1, (1,))


def test_another_target_replaces_a_running_one() -> None:
    running_one = dataclasses.replace(in_motion((3, 1, 2), adding=(3,), removing=(2,)), isr=(1, 2, 3))
    after = moved(running_one, (4, 2))
    assert (told(after), after.isr, after.leader) == (((4, 2, 1), (4,), (1,)), (1, 2), 1)


def test_origin_as_target_is_a_cancellation() -> None:
    running_one = in_motion((3, 1, 2), adding=(3,), removing=(2,))
    assert told(moved(running_one, (1, 2))) == ((1, 2), (), ())


def test_reassignment_that_would_leave_nobody_in_sync_is_refused() -> None:
    only_new = dataclasses.replace(in_motion((3, 1), adding=(3,), removing=(1,)), leader=3, isr=(3,))
    decision = reassign(controller(topic("t", only_new), brokers=3), None)
    [error] = decision.errors
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert list(decision.writes) == []


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Empty replica list"),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica ids"),
        ((-1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid broker id"),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not alive"),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment"),
    ],
)
def test_impossible_reassignment_is_refused(target: tuple[int, ...] | None, code: ErrorCode, message: str) -> None:
    [error] = reassign(controller(topic("t", state((1, 2))), brokers=3), target).errors
    assert error is not None
    assert (error.code, message in (error.message or "")) == (code, True)


def test_dead_broker_may_stay_a_replica() -> None:
    assert told(moved(state((9, 1), leader=1, isr=(1,)), (9, 2), brokers=2)) == ((9, 2, 1), (2,), (1,))


def test_unknown_partition_is_told() -> None:
    decision = controller(topic("t", state((1,)))).decide(Reassign(wanted={TopicPartition("t", 9): (1,)}))
    assert decision.errors[0] is not None
    assert decision.errors[0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_running_reassignments_are_listed() -> None:
    image = controller(topic("t", in_motion((3, 1), adding=(3,), removing=(1,)), state((1,))), brokers=3).image
    expected = Reassignment(topic_partition=T0, replicas=(3, 1), adding=(3,), removing=(1,))
    assert running(image) == running(image, [T0, TopicPartition("no", 0)]) == [expected]
    assert running(image, [TopicPartition("t", 1)]) == []


def test_new_replica_that_dies_holds_up_the_move_but_not_the_partition() -> None:
    running_one = dataclasses.replace(in_motion((4, 1), adding=(4,), removing=(1,)), isr=(1, 4), leader=4)
    after = reconsidered(running_one, brokers=3)
    assert (told(after), after.leader, after.isr) == (((4, 1), (4,), (1,)), 1, (1,))


def test_partition_all_of_whose_origin_died_goes_on_with_what_is_new() -> None:
    running_one = dataclasses.replace(in_motion((1, 9), adding=(1,), removing=(9,)), isr=(9, 1), leader=9)
    after = reconsidered(running_one, brokers=1)
    assert (told(after), after.leader, after.isr) == (((1,), (), ()), 1, (1,))


def test_nobody_leads_while_only_the_dead_origin_was_in_sync() -> None:
    running_one = dataclasses.replace(in_motion((1, 9), adding=(1,), removing=(9,)), isr=(9,), leader=9)
    after = reconsidered(running_one, brokers=1)
    assert (told(after), after.leader, after.isr) == (((1, 9), (1,), (9,)), NO_BROKER, (9,))


def test_topic_that_moves_gets_no_more_partitions_until_it_has() -> None:
    deciding = controller(topic("t", in_motion((3, 1), adding=(3,), removing=(1,))), brokers=3)
    [error] = deciding.decide(CreatePartitions(topics=[MorePartitions(name="t", count=2)])).errors
    assert error is not None
    assert error.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_topic_that_moves_can_be_deleted() -> None:
    deciding = controller(topic("t", in_motion((3, 1), adding=(3,), removing=(1,))), brokers=3)
    assert deciding.decide(DeleteTopics(names=["t"])).results[0].error is None


def test_many_moves_of_one_topic_are_one_write() -> None:
    deciding = controller(topic("t", *(state((1, 2)) for _ in range(150))), brokers=4)
    wanted = {TopicPartition("t", index): (3, 4) for index in range(150)}
    [write] = deciding.decide(Reassign(wanted=wanted)).writes
    assert [one.path for one in write].count("/brokers/topics/t") == 1
    assert len(write) == 151

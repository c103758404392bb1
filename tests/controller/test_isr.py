"""Leaders' proposals for their ISRs: what is taken, and what is refused with which code, in Kafka's order."""

from __future__ import annotations

import dataclasses
import json
from uuid import UUID

import pytest

from tests.controller.clusters import T0, TOPIC_ID, broker, controller, state, topic
from tidelog.controller import (
    ANY_EPOCH,
    AlterPartition,
    BeginShutdown,
    Controller,
    IsrChange,
    LoseReplicas,
    PartitionState,
    SeeBrokers,
)
from tidelog.model import ApiError, ErrorCode
from tidelog.registry import Set


def change(*isr: int, leader_epoch: int = 3, partition_epoch: int = 7, is_recovering: bool = False) -> IsrChange:
    return IsrChange(
        topic="t",
        index=0,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        isr=tuple((one, one * 10) for one in isr),
        is_recovering=is_recovering,
    )


def answer(deciding: Controller, proposed: IsrChange, *, by: int = 1) -> PartitionState | ErrorCode:
    command = AlterPartition(broker_id=by, broker_epoch=by * 10, changes=[proposed])
    [one] = deciding.decide(command).states
    return one.code if isinstance(one, ApiError) else one


def three(before: PartitionState | None = None, **settings: str) -> Controller:
    return controller(topic("t", before or state((1, 2, 3), isr=(1, 2))), brokers=3, **settings)


def test_proposal_is_a_new_partition_epoch_under_the_same_leader_epoch() -> None:
    deciding = three()
    decision = deciding.decide(AlterPartition(broker_id=1, broker_epoch=10, changes=[change(1, 2, 3)]))
    [after] = decision.states
    assert isinstance(after, PartitionState)
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2, 3), 3, 8)
    assert decision.image.topics["t"].partitions[0] is after
    [[write]] = decision.writes
    assert isinstance(write, Set)
    assert (write.path, write.version) == ("/brokers/topics/t/partitions/0/state", 7)
    assert json.loads(write.data) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 3,
        "controller_epoch": 5,
        "isr": [1, 2, 3],
    }


@pytest.mark.parametrize("epoch", [9, 11])
def test_broker_that_is_not_who_it_says_is_refused_as_a_whole(epoch: int) -> None:
    with pytest.raises(ApiError) as refused:
        three().decide(AlterPartition(broker_id=1, broker_epoch=epoch, changes=[change(1)]))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_unknown_broker_is_refused_as_a_whole() -> None:
    with pytest.raises(ApiError) as refused:
        three().decide(AlterPartition(broker_id=9, broker_epoch=90, changes=[change(1)]))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("proposed", "code"),
    [
        (dataclasses.replace(change(1), topic="no"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (dataclasses.replace(change(1), index=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (dataclasses.replace(change(1), topic=None, topic_id=UUID(int=7)), ErrorCode.UNKNOWN_TOPIC_ID),
        (change(1, leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (change(1, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (change(1, leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (change(1, leader_epoch=2, partition_epoch=3), ErrorCode.FENCED_LEADER_EPOCH),
        (change(1, partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (change(1, 9), ErrorCode.INVALID_REQUEST),
        (change(1, 2, 2), ErrorCode.INVALID_REQUEST),
        (change(), ErrorCode.INVALID_REQUEST),
        (change(2, 3), ErrorCode.INVALID_REQUEST),
        (change(1, 3, is_recovering=True), ErrorCode.INVALID_REQUEST),
        (change(1, is_recovering=True), ErrorCode.INVALID_REQUEST),
    ],
)
def test_impossible_proposal_is_refused_with_the_code(proposed: IsrChange, code: ErrorCode) -> None:
    assert answer(three(), proposed) is code


def test_only_the_leader_proposes() -> None:
    assert answer(three(), change(1, 2, 3), by=2) is ErrorCode.INVALID_REQUEST


def test_topic_is_found_by_its_id_also_after_it_was_made_anew() -> None:
    deciding = three()
    by_id = dataclasses.replace(change(1, 2, 3), topic=None, topic_id=TOPIC_ID)
    assert isinstance(answer(deciding, by_id), PartitionState)
    renamed = dataclasses.replace(deciding.image.topics["t"], name="u")
    deciding.image = deciding.image.without_topics(["t"]).with_topics([renamed])
    assert isinstance(answer(deciding, by_id), PartitionState)


def test_proposal_that_holds_already_is_answered_with_what_holds() -> None:
    deciding = three()
    assert answer(deciding, change(2, 1, partition_epoch=5)) is deciding.image.topics["t"].partitions[0]


def test_member_of_another_life_is_not_eligible() -> None:
    deciding = three()
    stale = dataclasses.replace(change(), isr=((1, 10), (2, 20), (3, 29)))
    assert answer(deciding, stale) is ErrorCode.INELIGIBLE_REPLICA


def test_proposal_without_epochs_is_taken() -> None:
    unnumbered = dataclasses.replace(change(), isr=((1, ANY_EPOCH), (2, ANY_EPOCH), (3, ANY_EPOCH)))
    assert isinstance(answer(three(), unnumbered), PartitionState)


def test_dead_member_is_not_eligible() -> None:
    deciding = three()
    deciding.image = deciding.decide(SeeBrokers(brokers={1: broker(1), 2: broker(2)})).image
    assert answer(deciding, change(1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA


def test_member_that_leaves_is_not_eligible_until_it_starts_again() -> None:
    deciding = three()
    deciding.image = deciding.decide(BeginShutdown(broker_id=3, broker_epoch=30)).image
    assert answer(deciding, change(1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
    deciding.image = deciding.decide(SeeBrokers(brokers={1: broker(1), 2: broker(2), 3: broker(3, epoch=31)})).image
    again = dataclasses.replace(change(), isr=((1, 10), (2, 20), (3, 31)))
    assert isinstance(answer(deciding, again), PartitionState)


def test_member_whose_disk_failed_is_not_eligible_until_it_starts_again() -> None:
    deciding = three()
    deciding.image = deciding.decide(LoseReplicas(broker_id=3, broker_epoch=30, partitions=[T0])).image
    assert answer(deciding, change(1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
    deciding.image = deciding.decide(SeeBrokers(brokers={1: broker(1), 2: broker(2), 3: broker(3, epoch=31)})).image
    assert deciding.image.offline == {}


def test_disk_that_failed_under_a_former_life_is_held_against_no_later_one() -> None:
    deciding = three()
    deciding.image = deciding.decide(SeeBrokers(brokers={1: broker(1), 2: broker(2), 3: broker(3, epoch=31)})).image
    decision = deciding.decide(LoseReplicas(broker_id=3, broker_epoch=30, partitions=[T0]))
    assert decision.image is deciding.image
    assert decision.reconsider == ()


def test_shrinking_below_the_minimum_makes_eligible_and_growing_ends_that() -> None:
    deciding = three(min_insync_replicas="2")
    shrunk = answer(deciding, change(1))
    assert isinstance(shrunk, PartitionState)
    assert (shrunk.isr, shrunk.eligible) == ((1,), (2,))
    grown = answer(three(shrunk, min_insync_replicas="2"), change(1, 3, partition_epoch=8))
    assert isinstance(grown, PartitionState)
    assert (grown.isr, grown.eligible) == ((1, 3), ())


def test_leader_that_recovers_says_that_it_has() -> None:
    recovering = dataclasses.replace(state((1, 2), isr=(1,)), is_recovering=True)
    deciding = three(recovering)
    assert answer(deciding, change(1, is_recovering=True)) is deciding.image.topics["t"].partitions[0]
    assert answer(deciding, change(1, 2, is_recovering=True)) is ErrorCode.INVALID_REQUEST
    after = answer(deciding, change(1))
    assert isinstance(after, PartitionState)
    assert (after.is_recovering, after.leader_epoch, after.partition_epoch) == (False, 3, 8)


def test_one_bad_proposal_does_not_spoil_the_others() -> None:
    deciding = controller(topic("t", state((1, 2), isr=(1,)), state((1, 2), isr=(1,))), brokers=2)
    proposals = [change(1, 2, leader_epoch=2), dataclasses.replace(change(1, 2), index=1)]
    decision = deciding.decide(AlterPartition(broker_id=1, broker_epoch=10, changes=proposals))
    assert [isinstance(one, PartitionState) for one in decision.states] == [False, True]
    assert len(list(decision.writes)) == 1


def test_partition_named_twice_is_altered_once() -> None:
    command = AlterPartition(broker_id=1, broker_epoch=10, changes=[change(1), change(1, 2, 3)])
    first, second = three().decide(command).states
    assert isinstance(first, PartitionState)
    assert isinstance(second, ApiError)


def test_proposal_for_a_partition_that_moves_is_reason_to_look_at_it() -> None:
    moving = dataclasses.replace(state((3, 1, 2), leader=1, isr=(1, 2)), adding=(3,), removing=(2,))
    decision = three(moving).decide(AlterPartition(broker_id=1, broker_epoch=10, changes=[change(1, 2, 3)]))
    assert decision.reconsider == (T0,)

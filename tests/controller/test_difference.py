"""What a broker is told between two images."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from tests.controller.clusters import T0, broker, controller, state, topic
from tidelog.controller import (
    NO_BROKER,
    TOPIC_IS_DELETED,
    ClusterImage,
    PartitionState,
    Role,
    StoppedReplica,
    Told,
    TopicImage,
    difference,
)
from tidelog.model import TopicPartition


def image(*topics: TopicImage, brokers: int = 3) -> ClusterImage:
    return controller(*topics, brokers=brokers).image


def after_change(before: ClusterImage, changed: PartitionState) -> ClusterImage:
    return before.with_topics([before.topics["t"].with_states({0: changed})])


def bumped(before: PartitionState, **changes: object) -> PartitionState:
    return dataclasses.replace(
        before,
        leader_epoch=before.leader_epoch + 1,
        partition_epoch=before.partition_epoch + 1,
        **changes,  # type: ignore[arg-type]
    )


def test_new_life_of_a_broker_is_told_everything() -> None:
    here, elsewhere = state((1, 2)), state((2, 3))
    told = difference(None, image(topic("t", here, elsewhere)), 1)
    assert told == Told(
        roles=(Role(topic_partition=T0, state=here, is_new=False),),
        is_full=True,
        metadata=((T0, here), (TopicPartition("t", 1), elsewhere)),
        are_brokers_changed=True,
    )


def test_replica_nobody_ever_changed_is_new_also_to_a_new_life() -> None:
    fresh = dataclasses.replace(state((1,)), leader_epoch=0, partition_epoch=0)
    [role] = difference(None, image(topic("t", fresh)), 1).roles
    assert role.is_new


def test_same_image_says_nothing() -> None:
    before = image(topic("t", state((1,))))
    assert difference(before, before, 1).is_nothing
    reloaded = image(topic("t", state((1,))))
    assert difference(before, reloaded, 1).is_nothing


def test_new_topic_is_told_to_its_replicas_and_to_everybody_as_metadata() -> None:
    made = state((1, 2))
    before = image()
    after = before.with_topics([topic("t", made)])
    assert difference(before, after, 1).roles == (Role(topic_partition=T0, state=made, is_new=True),)
    assert difference(before, after, 3) == Told(metadata=((T0, made),))


def test_new_leader_epoch_is_told_to_all_replicas() -> None:
    before = image(topic("t", state((1, 2))))
    after = after_change(before, bumped(state((1, 2)), leader=2, isr=(2,)))
    for broker_id in (1, 2):
        [role] = difference(before, after, broker_id).roles
        assert (role.state.leader, role.is_new) == (2, False)


def test_new_isr_without_a_new_leader_epoch_is_told_to_the_leader_whose_answer_may_be_lost_and_to_others_as_metadata() -> (
    None
):
    shrunk = dataclasses.replace(state((1, 2)), isr=(1,), partition_epoch=8)
    before = image(topic("t", state((1, 2))))
    role = Role(topic_partition=T0, state=shrunk, is_new=False)
    assert difference(before, after_change(before, shrunk), 1) == Told(roles=(role,), metadata=((T0, shrunk),))
    for broker_id in (2, 3):
        assert difference(before, after_change(before, shrunk), broker_id) == Told(metadata=((T0, shrunk),))


def test_deleted_topic_is_stopped_and_forgotten() -> None:
    gone = state((1, 2))
    before = image(topic("t", gone), topic("u", state((1,))))
    told = difference(before, before.without_topics(["t"]), 1)
    stopped = StoppedReplica(topic_partition=T0, leader_epoch=TOPIC_IS_DELETED, is_deleted=True)
    assert told == Told(deleted=((T0, gone),), stopped=(stopped,))
    assert difference(before, before.without_topics(["t"]), 3) == Told(deleted=((T0, gone),))


def test_topic_made_anew_under_its_name_replaces_the_old_one_first() -> None:
    before = image(topic("t", state((1, 2))))
    fresh = dataclasses.replace(state((1, 3)), topic_id=UUID(int=5))
    anew = TopicImage(name="t", topic_id=UUID(int=5), partitions={0: fresh})
    told = difference(before, before.with_topics([anew]), 1)
    assert told.replaced == (StoppedReplica(topic_partition=T0, leader_epoch=TOPIC_IS_DELETED, is_deleted=True),)
    assert told.roles == (Role(topic_partition=T0, state=fresh, is_new=True),)
    assert told.stopped == ()


def test_removed_replica_is_stopped_and_deleted_and_an_added_one_is_new() -> None:
    before = image(topic("t", state((1, 2))))
    moved = bumped(state((1, 2)), assignment=(2, 3), leader=2, isr=(2, 3))
    after = after_change(before, moved)
    assert difference(before, after, 1).stopped == (
        StoppedReplica(topic_partition=T0, leader_epoch=4, is_deleted=True),
    )
    assert difference(before, after, 3).roles == (Role(topic_partition=T0, state=moved, is_new=True),)


def test_broker_that_leaves_stops_following_and_still_hears_what_it_leads() -> None:
    before = image(topic("t", state((1, 2)), state((2, 1))))
    leaving = dataclasses.replace(before, shutting_down=frozenset({1}))
    followed = TopicPartition("t", 1)
    assert difference(before, leaving, 1).stopped == (
        StoppedReplica(topic_partition=followed, leader_epoch=3, is_deleted=False),
    )
    moved = after_change(leaving, bumped(state((1, 2)), leader=2, isr=(2,)))
    told = difference(leaving, moved, 1)
    assert told.roles == ()
    assert told.stopped == (StoppedReplica(topic_partition=T0, leader_epoch=4, is_deleted=False),)
    assert difference(before, leaving, 2) == Told()


def test_replica_without_a_disk_is_stopped_once() -> None:
    before = image(topic("t", state((1, 2))))
    lost = dataclasses.replace(before, offline={T0: frozenset({1})})
    elected = after_change(lost, bumped(state((1, 2)), leader=2, isr=(2,)))
    assert difference(before, elected, 1).stopped == (
        StoppedReplica(topic_partition=T0, leader_epoch=4, is_deleted=False),
    )
    assert difference(before, elected, 1).roles == ()
    assert difference(elected, dataclasses.replace(elected), 1).is_nothing


def test_brokers_that_come_go_or_move_are_told() -> None:
    before = image()
    assert difference(before, image(brokers=2), 1) == Told(are_brokers_changed=True)
    again = dataclasses.replace(before, brokers={**before.brokers, 2: broker(2, epoch=99)})
    assert difference(before, again, 1) == Told(are_brokers_changed=True)


def test_partition_without_leader_is_told_to_its_replicas() -> None:
    before = image(topic("t", state((1, 9))))
    orphaned = bumped(state((1, 9)), leader=NO_BROKER)
    assert difference(before, after_change(before, orphaned), 1).roles[0].state.leader == NO_BROKER

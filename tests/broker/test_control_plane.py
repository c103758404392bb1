"""What a broker does about what a controller tells it, and what it does not."""

from __future__ import annotations

import pytest

from tests.broker.control_rig import (
    OTHER_ID,
    OWN_EPOCH,
    T0,
    T1,
    TOPIC_ID,
    ControlledBroker,
    ControlRig,
    role,
    told,
)
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.runtime import Address
from tidelog.wire.messages.stop_replica import EPOCH_DURING_DELETE
from tidelog.wire.messages.update_metadata import LEADER_DURING_DELETE

STALE = ErrorCode.STALE_CONTROLLER_EPOCH


def test_replica_leads_and_follows_as_told() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.lead(role()) is ErrorCode.NONE
        assert broker.replicas.partition(T0).is_leader
        assert await broker.lead(role(leader=2, leader_epoch=1)) is ErrorCode.NONE
        assert broker.replicas.partition(T0).is_follower
        assert broker.fetchers.leaders == {T0: 2}
        assert broker.metadata.inter_broker_address(2) == Address("two", 2222)
        assert await broker.lead(role(leader_epoch=2)) is ErrorCode.NONE
        assert broker.fetchers.leaders == {}

    ControlRig().tell(story)


def test_replica_without_a_leader_follows_nobody() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.lead(role(leader=-1)) is ErrorCode.NONE
        assert broker.replicas.partition(T0).is_follower
        assert broker.fetchers.leaders == {}

    ControlRig().tell(story)


def test_word_that_is_no_news_changes_nothing() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader=2, leader_epoch=4, partition_epoch=6))
        assert await broker.lead(role(leader=2, leader_epoch=4, partition_epoch=6)) is STALE
        assert await broker.lead(role(leader_epoch=3, partition_epoch=7)) is STALE
        assert broker.fetchers.asked_count == 1

    ControlRig().tell(story)


def test_leader_hears_of_an_isr_that_changed_without_a_new_leader_epoch() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader_epoch=4, partition_epoch=6))
        assert await broker.lead(role(leader_epoch=4, partition_epoch=7, isr=(1,))) is ErrorCode.NONE
        assert broker.replicas.partition(T0).isr == (1,)

    ControlRig().tell(story)


def test_follower_goes_on_fetching_when_only_the_partition_epoch_is_new() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader=2, leader_epoch=4, partition_epoch=6))
        assert await broker.lead(role(leader=2, leader_epoch=4, partition_epoch=7, isr=(2,))) is ErrorCode.NONE
        assert (broker.fetchers.leaders, broker.fetchers.asked_count) == ({T0: 2}, 1)

    ControlRig().tell(story)


def test_c01_controller_that_was_replaced_is_not_heeded() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.lead(role(), controller_epoch=4) is ErrorCode.NONE
        assert await broker.lead(role(leader=2, leader_epoch=1), controller_epoch=3) is STALE
        assert await broker.update({T0: told()}, controller_epoch=3) is STALE
        assert await broker.stop(T0, controller_epoch=3) is STALE
        assert broker.replicas.partition(T0).is_leader

    ControlRig().tell(story)


def test_word_for_a_former_life_of_the_broker_is_not_heeded() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.lead(role(), broker_epoch=OWN_EPOCH - 1) is ErrorCode.STALE_BROKER_EPOCH
        assert broker.replicas.hosting.partition(T0) is None
        assert await broker.lead(role(), broker_epoch=OWN_EPOCH + 1) is ErrorCode.NONE  # We are about to learn of it.

    ControlRig().tell(story)


def test_replica_of_a_broker_that_is_not_assigned_is_not_taken() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.lead(role(replicas=(2, 3))) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    ControlRig().tell(story)


def test_topic_of_the_same_name_must_go_first() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role())
        assert await broker.lead(role(leader_epoch=5), topic_id=OTHER_ID) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert await broker.lead(role(leader_epoch=5), topic_id=None) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert await broker.stop(T0, leader_epoch=EPOCH_DURING_DELETE) is ErrorCode.NONE
        assert await broker.lead(role(), topic_id=OTHER_ID) is ErrorCode.NONE

    ControlRig().tell(story)


def test_c03_role_that_a_full_disk_prevents_is_taken_once_there_is_room() -> None:
    rig = ControlRig()

    async def story(broker: ControlledBroker) -> None:
        rig.disk.fill_up()
        assert await broker.lead(role()) is ErrorCode.NONE, "a full disk may pass"
        with pytest.raises(ApiError, match="cannot be had"):
            broker.replicas.partition(T0)
        rig.disk.free_up()
        broker.roles_of_replicas.retry_unavailable()
        assert broker.replicas.partition(T0).is_leader

    rig.tell(story)


def test_c03_role_that_a_failed_disk_prevents_is_not_remembered() -> None:
    rig = ControlRig(log_dirs="/a,/b")

    async def story(broker: ControlledBroker) -> None:
        rig.disk.faults.fail("mkdir", path="*/t-0")
        assert await broker.lead(role()) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.replicas.hosting.partition(T0) is None
        assert await broker.lead(role()) is ErrorCode.NONE, (
            "the same word again is heeded, in the directory that is left"
        )
        assert broker.replicas.partition(T0).is_leader

    rig.tell(story)


def test_replica_on_a_failed_disk_is_answered_with_a_storage_error() -> None:
    rig = ControlRig()

    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader=2))
        (directory,) = broker.replicas.directories
        rig.disk.faults.make_read_only("/data")
        await broker.replicas.checkpoint(directory)
        assert await broker.lead(role(leader_epoch=1)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await broker.stop(T0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.fetchers.leaders == {}
        assert broker.replicas.directory_failed.is_set()

    rig.tell(story)


# A full telling.


def test_what_a_full_telling_does_not_name_is_let_go_and_deleted_where_it_moved_elsewhere() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.roles(role(0), role(1))
        assert await broker.roles(role(0, leader_epoch=1), controller_epoch=4, is_full=True) == [ErrorCode.NONE]
        assert broker.replicas.hosting.partition(T1) is None
        (directory,) = broker.replicas.directories
        assert T1 in directory.logs, "whether it may go is known when all topics are"
        states = {T0: told(0), T1: told(1, leader=2, replicas=(2, 3))}
        assert await broker.update(states, is_full=True, controller_epoch=4) is ErrorCode.NONE
        assert T1 not in directory.logs
        assert not broker.runtime.disk.exists("/data/t-1")

    ControlRig().tell(story)


def test_full_telling_may_take_several_requests() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.roles(role(0), role(1), role(2))
        await broker.roles(role(0, leader_epoch=1), controller_epoch=4)
        await broker.roles(role(1, leader_epoch=1), controller_epoch=4, is_full=True)
        assert [broker.replicas.hosting.partition(TopicPartition("t", index)) is None for index in range(3)] == [
            False,
            False,
            True,
        ]

    ControlRig().tell(story)


def test_log_of_a_topic_nobody_knows_is_set_aside_and_of_one_that_was_deleted_removed() -> None:
    rig = ControlRig()

    async def before(broker: ControlledBroker) -> list[str]:
        await broker.lead(role(), topic="unknown")
        await broker.lead(role(), topic="deleted", topic_id=OTHER_ID)
        return []

    async def after(broker: ControlledBroker) -> list[str]:
        await broker.roles(is_full=True)
        gone = {TopicPartition("deleted", 0): told(leader=LEADER_DURING_DELETE)}
        assert await broker.update(gone, topic_id=None, is_full=True) is ErrorCode.NONE
        assert broker.control_plane.was_told_all.is_set()
        return [name for name in broker.runtime.disk.listdir("/data") if "-0" in name]

    deleted, unknown = rig.tell(before, after)
    assert (deleted.partition(".")[0], unknown.partition(".")[0]) == ("deleted-0", "unknown-0")
    assert (deleted.endswith("-delete"), unknown.endswith("-stray")) == (True, True)


def test_topics_that_a_full_telling_does_not_name_are_gone() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.update({T0: told(), TopicPartition("u", 0): told()})
        await broker.update({T0: told()}, is_full=True, controller_epoch=4)
        assert list(broker.metadata.image.topics) == ["t"]

    ControlRig().tell(story)


def test_topics_are_not_all_known_until_the_controller_that_tells_now_has_told_the_last() -> None:
    async def story(broker: ControlledBroker) -> None:
        known = [broker.metadata.is_whole]
        await broker.update({T0: told()}, is_full=True)
        known.append(broker.metadata.is_whole)
        await broker.update({T1: told(1)})
        known.append(broker.metadata.is_whole)
        await broker.update({T0: told()}, controller_epoch=4)
        known.append(broker.metadata.is_whole)
        await broker.update({T1: told(1)}, is_full=True, controller_epoch=4)
        assert [*known, broker.metadata.is_whole] == [False, True, True, False, True]

    ControlRig().tell(story)


# UpdateMetadata.


def test_metadata_is_merged_and_deleted_topics_are_forgotten() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.update({T0: told(), T1: told(1)})
        await broker.update({T1: told(1, leader=2, leader_epoch=1, partition_epoch=1)}, brokers=(1, 2, 3))
        topic = broker.metadata.topic("t")
        assert topic is not None
        assert {index: state.leader for index, state in topic.partitions.items()} == {0: 1, 1: 2}
        assert sorted(broker.metadata.image.brokers) == [1, 2, 3]
        assert broker.metadata.topic_by_id(TOPIC_ID) is topic
        gone = {T0: told(leader=LEADER_DURING_DELETE), T1: told(1, leader=LEADER_DURING_DELETE)}
        await broker.update(gone)
        assert broker.metadata.topic("t") is None
        assert broker.metadata.topic_by_id(TOPIC_ID) is None

    ControlRig().tell(story)


def test_n08_metadata_that_was_overtaken_on_its_way_does_not_go_back() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.update({T0: told(leader=2, leader_epoch=5, partition_epoch=9)})
        await broker.update({T0: told(leader=1, leader_epoch=4, partition_epoch=8)})
        state = broker.metadata.image.state_of(T0)
        assert state is not None
        assert (state.leader, state.leader_epoch) == (2, 5)

    ControlRig().tell(story)


def test_topic_made_anew_replaces_its_namesake_whatever_its_epochs() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.update({T0: told(leader_epoch=5, partition_epoch=9), T1: told(1)})
        await broker.update({T0: told()}, topic_id=OTHER_ID)
        topic = broker.metadata.topic("t")
        assert topic is not None
        assert (topic.topic_id, list(topic.partitions)) == (OTHER_ID, [0])
        assert broker.metadata.topic_by_id(TOPIC_ID) is None

    ControlRig().tell(story)


# StopReplica.


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (EPOCH_DURING_DELETE, ErrorCode.NONE),
        (7, ErrorCode.NONE),
        (8, ErrorCode.NONE),
        (6, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_replica_stops_unless_it_knows_a_newer_leader(leader_epoch: int, code: ErrorCode) -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader=2, leader_epoch=7))
        assert await broker.stop(T0, leader_epoch=leader_epoch) is code
        assert (broker.replicas.hosting.partition(T0) is None) == (code is ErrorCode.NONE)
        assert broker.runtime.disk.exists("/data/t-0") == (code is not ErrorCode.NONE)

    ControlRig().tell(story)


def test_replica_that_stops_without_deletion_keeps_its_log_and_fetches_no_more() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader=2, leader_epoch=7))
        assert await broker.stop(T0, leader_epoch=7, is_deleted=False) is ErrorCode.NONE
        assert broker.fetchers.leaders == {}
        assert broker.replicas.partition(T0).is_follower

    ControlRig().tell(story)


def test_r22_leader_that_is_stopped_because_its_broker_leaves_leads_no_longer_and_knows_the_epoch() -> None:
    async def story(broker: ControlledBroker) -> None:
        await broker.lead(role(leader_epoch=7))
        partition = broker.replicas.partition(T0)
        assert await broker.stop(T0, leader_epoch=8, is_deleted=False) is ErrorCode.NONE
        with pytest.raises(ApiError) as refused:
            partition.check_reign(partition.reign)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await broker.lead(role(leader_epoch=7)) is STALE, "a word from before comes too late"

    ControlRig().tell(story)


def test_replica_that_is_not_here_can_be_stopped() -> None:
    async def story(broker: ControlledBroker) -> None:
        assert await broker.stop(T0) is ErrorCode.NONE

    ControlRig().tell(story)

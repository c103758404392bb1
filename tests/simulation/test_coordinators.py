"""Coordinators in a cluster: what they have acknowledged survives them, and who is none says so."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import ask, kills, make_topic, talk
from tests.simulation.workload import delete_topic
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.client.errors import ConnectionLost
from tidelog.controller import layout
from tidelog.coordinator.placement import partition_of
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [kills, pytest.mark.slow]

GROUP = "g"
PARTITIONS = 4
HOME = TopicPartition(GROUPS_TOPIC, partition_of(GROUP, PARTITIONS))
SETTINGS = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "tidelog.offsets.topic.min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "offsets.commit.timeout.ms": "3000",
}


def three_brokers(**settings: str) -> SimulatedCluster:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(4, brokers=3, settings={**SETTINGS, **given})


def find(cluster: SimulatedCluster, broker_id: BrokerId = 1, key_type: int = 0) -> Coordinator:
    (found,) = ask(
        cluster, broker_id, FindCoordinatorRequest(key_type=key_type, coordinator_keys=(GROUP,))
    ).coordinators
    return found


def until_found(cluster: SimulatedCluster, broker_id: BrokerId = 1) -> BrokerId:
    """The coordinator of the group, once there is one that lives."""
    found: list[BrokerId] = []

    def is_found() -> bool:
        answer = find(cluster, broker_id)
        if answer.error_code is ErrorCode.NONE and cluster.brokers[answer.node_id].node.is_running:
            found.append(answer.node_id)
        return bool(found)

    cluster.until(is_found, "somebody looks after the group")
    return found[0]


def commit(
    cluster: SimulatedCluster, broker_id: BrokerId, offset: int, topic: str = "t", group: str = GROUP
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=""),
                ),
            ),
        ),
    )
    return ask(cluster, broker_id, request, version=9).topics[0].partitions[0].error_code


def fetch(
    cluster: SimulatedCluster, broker_id: BrokerId, topic: str = "t", group: str = GROUP
) -> tuple[ErrorCode, int]:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
    )
    (found,) = ask(cluster, broker_id, OffsetFetchRequest(groups=(asked,)), version=9).groups
    return found.error_code, found.topics[0].partitions[0].committed_offset if found.topics else -2


def until_committed(cluster: SimulatedCluster, offset: int) -> BrokerId:
    """Commit as a client does: ask again until it worked."""
    done: list[BrokerId] = []

    def is_committed() -> bool:
        alive = next(one.broker_id for one in cluster.brokers.values() if one.is_ready)
        coordinator = until_found(cluster, alive)
        try:
            if commit(cluster, coordinator, offset) is ErrorCode.NONE:
                done.append(coordinator)
        except ConnectionLost:
            pass
        return bool(done)

    cluster.until(is_committed, f"offset {offset} is committed")
    return done[0]


def until_fetched(cluster: SimulatedCluster) -> int:
    found: list[int] = []

    def is_fetched() -> bool:
        alive = next(one.broker_id for one in cluster.brokers.values() if one.is_ready)
        code, offset = fetch(cluster, until_found(cluster, alive))
        if code is ErrorCode.NONE:
            found.append(offset)
        return bool(found)

    cluster.until(is_fetched, "the offset is told")
    return found[0]


def test_the_topic_is_made_as_its_settings_say_when_the_first_group_is_asked_for() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, [1, 2, 3])
        assert find(cluster).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert until_found(cluster) == cluster.state(HOME).leader
        assert {len(cluster.state(TopicPartition(GROUPS_TOPIC, index)).assignment) for index in range(4)} == {3}
        (topic,) = ask(cluster, 2, MetadataRequest(topics=(MetadataRequestTopic(name=GROUPS_TOPIC),))).topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 4)
        assert {until_found(cluster, broker_id) for broker_id in cluster.brokers} == {cluster.state(HOME).leader}


def test_the_topic_is_not_made_before_enough_brokers_live() -> None:
    with three_brokers() as cluster:
        cluster.until_ready()
        cluster.brokers[3].kill()
        cluster.until(lambda: len(ask(cluster, 1, MetadataRequest(topics=())).brokers) == 2, "the third is gone")
        assert "and 2 brokers live" in (find(cluster).error_message or "")
        cluster.world.run_for_ms(3_000)
        assert find(cluster).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert cluster.store.tree.peek(layout.topic_path(GROUPS_TOPIC)) is None
        cluster.brokers[3].restart()
        until_found(cluster)
        assert len(cluster.state(HOME).assignment) == 3


def test_what_was_acknowledged_outlives_its_coordinator() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, [1, 2, 3])
        coordinator = until_committed(cluster, 1)
        for offset in range(2, 20):
            assert until_committed(cluster, offset) == coordinator
        cluster.brokers[coordinator].kill()
        assert until_fetched(cluster) == 19
        second = until_committed(cluster, 20)
        assert second != coordinator
        cluster.brokers[coordinator].restart()
        cluster.until(lambda: len(cluster.state(HOME).isr) == 3, "all are in sync")
        cluster.brokers[second].kill()
        assert until_fetched(cluster) == 20


def test_an_answer_waits_for_the_high_watermark_and_not_for_ever() -> None:
    with three_brokers(**{"replica.lag.time.max.ms": "60000"}) as cluster:
        make_topic(cluster, [1, 2, 3])
        coordinator = until_committed(cluster, 1)
        others = [broker for broker in cluster.brokers.values() if broker.broker_id != coordinator]
        for broker in others:
            broker.pause()
        before_ms = cluster.world.loop.time_ms()
        code = commit(cluster, coordinator, 2)
        assert code is not ErrorCode.NONE
        assert cluster.world.loop.time_ms() - before_ms >= 3_000
        for broker in others:
            broker.resume()
        assert until_fetched(cluster) in (1, 2)


def test_a_broker_that_leads_no_more_says_so() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, [1, 2, 3])
        coordinator = until_committed(cluster, 7)
        stranger = next(broker_id for broker_id in cluster.brokers if broker_id != coordinator)
        assert fetch(cluster, stranger)[0] is ErrorCode.NOT_COORDINATOR
        cluster.brokers[coordinator].kill()
        until_fetched(cluster)
        cluster.brokers[coordinator].restart()
        cluster.until_ready()
        cluster.until(lambda: cluster.state(HOME).leader != coordinator, "another leads")
        assert fetch(cluster, coordinator)[0] is ErrorCode.NOT_COORDINATOR
        assert commit(cluster, coordinator, 8) is ErrorCode.NOT_COORDINATOR


def test_a_coordinator_whose_disk_fails_is_replaced_though_its_broker_lives_on() -> None:
    with three_brokers(**{"log.dirs": "/a,/b"}) as cluster:
        make_topic(cluster, [1, 2, 3])
        coordinator = cluster.brokers[until_committed(cluster, 5)]
        (partition,) = [one for one in coordinator.partitions() if one.topic_partition == HOME]
        coordinator.node.disk.faults.make_read_only(partition.log.directory.rpartition("/")[0])
        assert commit(cluster, coordinator.broker_id, 6) is ErrorCode.NOT_COORDINATOR
        assert fetch(cluster, coordinator.broker_id)[0] is ErrorCode.NOT_COORDINATOR
        cluster.until(lambda: cluster.state(HOME).leader not in (coordinator.broker_id, -1), "another one leads")
        assert until_fetched(cluster) == 5
        coordinator.node.disk.faults.heal()


def test_a_member_that_waits_is_told_to_look_elsewhere_when_its_coordinator_leaves() -> None:
    with three_brokers(**{"group.initial.rebalance.delay.ms": "60000"}) as cluster:
        make_topic(cluster, [1, 2, 3])
        coordinator = cluster.brokers[until_committed(cluster, 5)]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=120_000,
            member_id="",
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        joining = cluster.client.spawn(talk(cluster, coordinator.broker_id, request, 3)(cluster.client.runtime))
        cluster.world.run_for_ms(1_000)
        assert not joining.done(), "it waits for others"
        cluster.world.run(coordinator.stop())
        assert joining.result().error_code is ErrorCode.NOT_COORDINATOR


def test_a_cluster_that_lost_power_remembers_what_it_acknowledged() -> None:
    with three_brokers(**{"log.flush.interval.messages": "1"}) as cluster:
        make_topic(cluster, [1, 2, 3])
        until_committed(cluster, 11)
        for broker in cluster.brokers.values():
            broker.power_cut()
        for broker in cluster.brokers.values():
            broker.restart()
        cluster.until_ready()
        assert until_fetched(cluster) == 11


@pytest.mark.parametrize("key_type", [1, 2])
def test_what_is_no_group_has_no_coordinator(key_type: int) -> None:
    expected = {1: ErrorCode.COORDINATOR_NOT_AVAILABLE, 2: ErrorCode.INVALID_REQUEST}[key_type]
    with three_brokers() as cluster:
        cluster.until_ready()
        assert find(cluster, key_type=key_type).error_code is expected
        old = ask(cluster, 1, FindCoordinatorRequest(key=GROUP, key_type=1), version=3)
        assert (old.error_code, old.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_clients_neither_write_to_the_topic_nor_make_one_that_forgets() -> None:
    with three_brokers() as cluster:
        cluster.until_ready()

        def create(configs: dict[str, str]) -> ErrorCode:
            topic = CreatableTopic(
                name=GROUPS_TOPIC,
                num_partitions=1,
                replication_factor=1,
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
            )
            return ask(cluster, 1, CreateTopicsRequest(topics=(topic,))).topics[0].error_code

        assert create({}) is ErrorCode.INVALID_REQUEST
        assert create({"cleanup.policy": "delete"}) is ErrorCode.INVALID_REQUEST
        coordinator = until_found(cluster)
        data = PartitionProduceData(index=HOME.index, records=bytearray(100))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1_000,
            topic_data=(TopicProduceData(name=GROUPS_TOPIC, partition_data=(data,)),),
        )
        answer = ask(cluster, coordinator, request, version=9)
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_asking_for_the_topic_by_name_makes_it_as_its_own_settings_say() -> None:
    with three_brokers() as cluster:
        cluster.until_ready()
        request = MetadataRequest(topics=(MetadataRequestTopic(name=GROUPS_TOPIC),), allow_auto_topic_creation=True)
        assert ask(cluster, 2, request).topics[0].error_code is ErrorCode.LEADER_NOT_AVAILABLE
        until_found(cluster)
        assert len(cluster.state(HOME).assignment) == 3


def test_offsets_of_a_topic_that_is_deleted_while_nobody_coordinates_are_not_those_of_the_next_of_its_name() -> None:
    with three_brokers() as cluster:
        make_topic(cluster, (2, 3))
        make_topic(cluster, (2, 3), name="u")
        cluster.until_ready()
        configs = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
        make_topic(cluster, (1,), configs, name=GROUPS_TOPIC)
        cluster.until(lambda: commit(cluster, 1, 7) is ErrorCode.NONE, "the group is coordinated")
        assert commit(cluster, 1, 8, topic="u") is ErrorCode.NONE
        cluster.brokers[1].kill()
        cluster.until_ready()
        delete_topic(cluster, "t")
        cluster.brokers[1].restart()
        cluster.until_ready()
        cluster.until(lambda: fetch(cluster, 1, "u") == (ErrorCode.NONE, 8), "the group is coordinated again")
        cluster.world.run_for_ms(5_000)
        make_topic(cluster, (2, 3))
        cluster.world.run_for_ms(5_000)
        assert [fetch(cluster, 1, topic)[1] for topic in ("t", "u")] == [-1, 8]


def test_offsets_are_forgotten_where_a_message_holds_but_a_few_of_them() -> None:
    groups = [f"group-{number}" for number in range(100)]
    with three_brokers() as cluster:
        make_topic(cluster, (2, 3))
        configs = {"cleanup.policy": "compact", "min.insync.replicas": "1", "max.message.bytes": "1000"}
        make_topic(cluster, (1,), configs, name=GROUPS_TOPIC)
        cluster.until(lambda: commit(cluster, 1, 7) is ErrorCode.NONE, "the group is coordinated")
        assert [commit(cluster, 1, 7, group=group) for group in groups] == [ErrorCode.NONE] * len(groups)
        delete_topic(cluster, "t")
        cluster.world.run_for_ms(5_000)
        make_topic(cluster, (2, 3))
        assert {fetch(cluster, 1, group=group)[1] for group in groups} == {-1}

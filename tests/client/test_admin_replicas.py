"""Looking after replicas: what is asked of whom, and what is made of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.client.scripted_brokers import T0, TOPIC_ID, ScriptedBrokers
from tests.client.test_moving_leaders import properties
from tidelog.client import (
    Admin,
    BrokersUnreachable,
    ClientConfig,
    ConfigChange,
    ConfigResource,
    ElectionKind,
    PartitionResult,
    Reassignment,
    RemoteReplica,
    ReplicaDescription,
    RequestRefused,
    ResourceKind,
)
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages import alter_partition_reassignments as altering
from tidelog.wire.messages import delete_records, describe_replicas, elect_leaders
from tidelog.wire.messages import incremental_alter_configs as configs
from tidelog.wire.messages import list_partition_reassignments as listing

T = TypeVar("T")
T1, U0 = TopicPartition("t", 1), TopicPartition("u", 0)


def asked(brokers: ScriptedBrokers, ask: Callable[[Admin], Coroutine[Any, Any, T]], **settings: str) -> T:
    async def story(runtime: Runtime) -> T:
        async with Admin.connect(ClientConfig.from_properties(properties(brokers, **settings)), runtime) as admin:
            return await ask(admin)

    return brokers.run(story)


def election(code: ErrorCode, *rows: elect_leaders.PartitionResult) -> elect_leaders.ElectLeadersResponse:
    topic = elect_leaders.ReplicaElectionResult(topic="t", partition_result=rows)
    return elect_leaders.ElectLeadersResponse(error_code=code, replica_election_results=(topic,) if rows else ())


def elected(index: int, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> elect_leaders.PartitionResult:
    return elect_leaders.PartitionResult(partition_id=index, error_code=code, error_message=message)


def test_leaders_are_elected_by_the_controller_and_each_partition_has_its_result() -> None:
    brokers = ScriptedBrokers()
    brokers.controller = 2
    brokers.scripts[ApiKey.ELECT_LEADERS] = lambda _node, _request: election(
        ErrorCode.NONE, elected(0), elected(1, ErrorCode.ELECTION_NOT_NEEDED, "it leads")
    )
    results = asked(brokers, lambda admin: admin.elect_leaders(ElectionKind.UNCLEAN, [T0, T1, U0, T0]))
    assert results == {
        T0: PartitionResult(code=ErrorCode.NONE),
        T1: PartitionResult(code=ErrorCode.ELECTION_NOT_NEEDED, message="it leads"),
    }
    ((node, request),) = brokers.requests(elect_leaders.ElectLeadersRequest)
    assert (node, request.election_type) == (2, 1)
    assert request.topic_partitions == (
        elect_leaders.TopicPartitions(topic="t", partitions=(0, 1)),
        elect_leaders.TopicPartitions(topic="u", partitions=(0,)),
    )


def test_leaders_of_all_partitions_are_elected_for_null() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.ELECT_LEADERS] = lambda _node, _request: election(ErrorCode.NONE)
    assert asked(brokers, lambda admin: admin.elect_leaders(ElectionKind.PREFERRED, None)) == {}
    ((_, request),) = brokers.requests(elect_leaders.ElectLeadersRequest)
    assert (request.election_type, request.topic_partitions) == (0, None)


def test_a_refused_election_is_raised() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.ELECT_LEADERS] = lambda _node, _request: election(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(RequestRefused, match="the cluster refused: CLUSTER_AUTHORIZATION_FAILED"):
        asked(brokers, lambda admin: admin.elect_leaders(ElectionKind.PREFERRED, None))


@pytest.mark.parametrize("is_top_level", [True, False])
def test_an_election_follows_the_controller(*, is_top_level: bool) -> None:
    brokers = ScriptedBrokers()

    def answer(node: BrokerId, _request: object) -> Any:
        if node != 1:
            return election(ErrorCode.NONE, elected(0))
        brokers.controller = 3
        code = ErrorCode.NOT_CONTROLLER
        return election(code) if is_top_level else election(ErrorCode.NONE, elected(0, code))

    brokers.scripts[ApiKey.ELECT_LEADERS] = answer
    assert asked(brokers, lambda admin: admin.elect_leaders(ElectionKind.PREFERRED, [T0]))[T0].is_ok
    assert [node for node, _ in brokers.requests(elect_leaders.ElectLeadersRequest)] == [1, 3]


def test_partitions_are_moved_and_moves_cancelled() -> None:
    brokers = ScriptedBrokers()
    rows = (
        altering.ReassignablePartitionResponse(partition_index=0, error_code=ErrorCode.NONE),
        altering.ReassignablePartitionResponse(
            partition_index=1, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, error_message="nothing moves"
        ),
    )
    topic = altering.ReassignableTopicResponse(name="t", partitions=rows)
    brokers.scripts[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = lambda _node, _request: (
        altering.AlterPartitionReassignmentsResponse(error_code=ErrorCode.NONE, responses=(topic,))
    )
    results = asked(brokers, lambda admin: admin.alter_reassignments({T0: [2, 3], T1: None}))
    assert results[T0].is_ok
    assert results[T1] == PartitionResult(code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message="nothing moves")
    ((_, request),) = brokers.requests(altering.AlterPartitionReassignmentsRequest)
    (asked_topic,) = request.topics
    assert [(row.partition_index, row.replicas) for row in asked_topic.partitions] == [(0, (2, 3)), (1, None)]


def test_a_refused_move_is_raised_with_what_the_cluster_says() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = lambda _node, _request: (
        altering.AlterPartitionReassignmentsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="no")
    )
    with pytest.raises(RequestRefused, match="INVALID_REQUEST: no"):
        asked(brokers, lambda admin: admin.alter_reassignments({T0: [2, 3]}))


@pytest.mark.parametrize("wanted", [None, [T0]])
def test_moves_under_way_are_listed(wanted: list[TopicPartition] | None) -> None:
    brokers = ScriptedBrokers()
    row = listing.OngoingPartitionReassignment(
        partition_index=0, replicas=(1, 2, 3), adding_replicas=(3,), removing_replicas=(1,)
    )
    brokers.scripts[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda _node, _request: (
        listing.ListPartitionReassignmentsResponse(
            error_code=ErrorCode.NONE, topics=(listing.OngoingTopicReassignment(name="t", partitions=(row,)),)
        )
    )
    assert asked(brokers, lambda admin: admin.list_reassignments(wanted)) == [
        Reassignment(topic_partition=T0, replicas=(1, 2, 3), adding=(3,), removing=(1,))
    ]
    ((_, request),) = brokers.requests(listing.ListPartitionReassignmentsRequest)
    expected = (listing.ListPartitionReassignmentsTopics(name="t", partition_indexes=(0,)),)
    assert request.topics == (None if wanted is None else expected)


def replicas_of(
    node: BrokerId, *rows: describe_replicas.ReplicaOfPartition
) -> describe_replicas.DescribeReplicasResponse:
    topic = describe_replicas.ReplicasOfTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)
    return describe_replicas.DescribeReplicasResponse(
        broker_id=node, broker_epoch=100 + node, topics=(topic,) if rows else ()
    )


def one_replica(node: BrokerId) -> describe_replicas.ReplicaOfPartition:
    remote = describe_replicas.RemoteReplica(broker_id=2, log_end_offset=8, last_caught_up_ms=7)
    return describe_replicas.ReplicaOfPartition(
        partition_index=0,
        error_code=ErrorCode.NONE,
        is_leader=node == 1,
        leader_id=1,
        leader_epoch=4,
        last_epoch=3,
        log_start_offset=2,
        log_end_offset=9,
        high_watermark=8,
        last_stable_offset=6,
        isr=(1, 2),
        assignment=(1, 2, 3),
        remotes=(remote,) if node == 1 else (),
    )


def test_every_broker_tells_of_its_replicas() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda node, _request: replicas_of(node, one_replica(node))
    told = asked(brokers, lambda admin: admin.describe_replicas())
    assert list(told) == [1, 2, 3]
    (leader,) = told[1]
    assert leader == ReplicaDescription(
        topic_partition=T0,
        topic_id=TOPIC_ID,
        code=ErrorCode.NONE,
        is_leader=True,
        leader_id=1,
        leader_epoch=4,
        last_epoch=3,
        log_start_offset=2,
        log_end_offset=9,
        high_watermark=8,
        last_stable_offset=6,
        isr=(1, 2),
        assignment=(1, 2, 3),
        remotes=(RemoteReplica(2, 8, 7),),
    )
    assert {request.topics for _, request in brokers.requests(describe_replicas.DescribeReplicasRequest)} == {None}


def test_a_broker_without_a_replica_has_nothing_to_tell_of_it() -> None:
    brokers = ScriptedBrokers()
    nothing = describe_replicas.ReplicaOfPartition(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broken = describe_replicas.ReplicaOfPartition(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    rows = {1: one_replica(1), 2: nothing, 3: broken}
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda node, _request: replicas_of(node, rows[node])
    told = asked(brokers, lambda admin: admin.describe_replicas([T0]))
    assert {node: [replica.code for replica in replicas] for node, replicas in told.items()} == {
        1: [ErrorCode.NONE],
        2: [],
        3: [ErrorCode.KAFKA_STORAGE_ERROR],
    }
    ((_, request), *_others) = brokers.requests(describe_replicas.DescribeReplicasRequest)
    assert request.topics == (describe_replicas.ReplicasWanted(topic="t", partitions=(0,)),)


def test_brokers_that_are_dead_or_silent_are_left_out_and_soon() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda node, _request: (
        None if node == 2 else replicas_of(node, one_replica(node))
    )

    async def story(runtime: Runtime) -> None:
        brokers.kill(1)
        started_ms = runtime.clock.monotonic_ms()
        async with Admin.connect(ClientConfig.from_properties(properties(brokers)), runtime) as admin:
            assert list(await admin.describe_replicas()) == [3]
        assert runtime.clock.monotonic_ms() - started_ms < 5000

    brokers.run(story)


def test_a_cluster_of_which_nobody_tells_is_an_error() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda _node, _request: None
    with pytest.raises(BrokersUnreachable, match="none of the brokers 1, 2, 3 told of its replicas"):
        asked(brokers, lambda admin: admin.describe_replicas())


def test_one_broker_can_be_asked_for_its_replicas() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda node, _request: replicas_of(node, one_replica(node))
    assert list(asked(brokers, lambda admin: admin.describe_replicas(brokers=[2]))) == [2]


def test_brokers_tell_the_epochs_of_their_registrations() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.DESCRIBE_REPLICAS] = lambda node, _request: replicas_of(node)
    assert asked(brokers, lambda admin: admin.broker_epochs()) == {1: 101, 2: 102, 3: 103}
    assert {request.topics for _, request in brokers.requests(describe_replicas.DescribeReplicasRequest)} == {()}


def altered(resource: configs.AlterConfigsResource, code: ErrorCode) -> configs.IncrementalAlterConfigsResponse:
    row = configs.AlterConfigsResourceResponse(
        error_code=code, error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    return configs.IncrementalAlterConfigsResponse(responses=(row,))


def test_settings_of_topics_are_altered_by_the_controller_and_those_of_a_broker_by_itself() -> None:
    brokers = ScriptedBrokers()

    def alter(node: BrokerId, request: configs.IncrementalAlterConfigsRequest) -> Any:
        (resource,) = request.resources
        if node == 1:
            brokers.controller = 3
            return altered(resource, ErrorCode.NOT_CONTROLLER)
        return altered(resource, ErrorCode.NONE)

    brokers.scripts[ApiKey.INCREMENTAL_ALTER_CONFIGS] = alter
    change = [ConfigChange(name="n", value="v")]
    wanted = {ConfigResource(ResourceKind.TOPIC, "t"): change, ConfigResource(ResourceKind.BROKER, "2"): change}
    results = asked(brokers, lambda admin: admin.alter_configs(wanted))
    assert all(result.is_ok for result in results)
    assert [node for node, _ in brokers.requests(configs.IncrementalAlterConfigsRequest)] == [1, 3, 2]


@pytest.mark.parametrize(("broker_ids", "is_retried"), [((1, 2), True), ((1,), False)])
def test_a_failed_disk_is_waited_for_only_where_somebody_else_may_lead(
    broker_ids: tuple[BrokerId, ...], *, is_retried: bool
) -> None:
    brokers = ScriptedBrokers(*broker_ids)

    def delete(node: BrokerId, _request: object) -> Any:
        code = ErrorCode.NONE
        if node == 1:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            asyncio.get_running_loop().call_later(1, brokers.elect, 2, 1)
        row = delete_records.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5, error_code=code)
        topic = delete_records.DeleteRecordsTopicResult(name="t", partitions=(row,))
        return delete_records.DeleteRecordsResponse(topics=(topic,))

    brokers.scripts[ApiKey.DELETE_RECORDS] = delete
    results = asked(brokers, lambda admin: admin.delete_records({T0: 5}))
    assert results == {T0: 5 if is_retried else ErrorCode.KAFKA_STORAGE_ERROR}

"""Three brokers and their controller: what reaches whom, by which way, and what happens when one of them leaves or loses a disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.simulation.clusters import SAFE, T0, is_whole, make_topic, produce
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.errors import ConnectionLost
from tidelog.controller import layout
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Address, Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.api import API_TABLE, ApiKey, Request, Response
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.describe_replicas import DescribeReplicasRequest
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.leader_and_isr import INCREMENTAL, LeaderAndIsrRequest
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.stop_replica import StopReplicaRequest
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

R = TypeVar("R", bound=Response)

TOPIC, BROKER = 2, 4
LIMITS = ConnectionLimits(
    client_id="test",
    setup_timeout_ms=5_000,
    request_timeout_ms=30_000,
    in_flight_max=5,
    receive_bytes_max=1 << 24,
)
OF_BROKERS: list[Request[Response]] = [
    LeaderAndIsrRequest(controller_id=9, controller_epoch=99, type=INCREMENTAL, topic_states=(), live_leaders=()),
    UpdateMetadataRequest(controller_id=9, controller_epoch=99, topic_states=(), live_brokers=()),
    StopReplicaRequest(controller_id=9, controller_epoch=99, topic_states=()),
    ControlledShutdownRequest(broker_id=1),
    AlterPartitionRequest(broker_id=1, topics=()),
]


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(3, brokers=3, settings={**SAFE, "replica.lag.time.max.ms": "2000"}) as running:
        running.until_ready()
        yield running


def endpoint(cluster: SimulatedCluster, broker_id: BrokerId, listener: str) -> Address:
    """Where a broker has registered a listener."""
    node = cluster.store.tree.peek(layout.broker_path(broker_id))
    assert node is not None
    found = layout.decode_broker(broker_id, node).endpoints[listener]
    return Address(found.host, found.port)


def ask(
    cluster: SimulatedCluster,
    broker_id: BrokerId,
    request: Request[R],
    *,
    listener: str = "PLAINTEXT",
    version: int | None = None,
) -> R:
    """Ask one broker. Raises ConnectionLost."""
    address = endpoint(cluster, broker_id, listener)

    async def story(runtime: Runtime) -> R:
        connection = await open_connection(runtime.network, address, LIMITS)
        try:
            return await connection.request(request, version=version)
        finally:
            connection.close()

    return cluster.tell(story)


def others(cluster: SimulatedCluster) -> list[BrokerId]:
    """The brokers that are not the controller."""
    assert cluster.controller is not None
    return [one for one in cluster.brokers if one != cluster.controller.broker_id]


# The listeners.


@pytest.mark.parametrize("request_of_broker", OF_BROKERS, ids=lambda request: type(request).__name__)
def test_what_brokers_alone_may_ask_is_served_on_their_own_listener(
    cluster: SimulatedCluster, request_of_broker: Request[Response]
) -> None:
    version = next(api.served.high for api in API_TABLE.values() if api.request is type(request_of_broker))
    with pytest.raises(ConnectionLost):
        ask(cluster, 1, request_of_broker, version=version)
    assert ask(cluster, 1, request_of_broker, listener="REPLICATION", version=version) is not None


def test_only_brokers_are_told_what_they_alone_may_ask(cluster: SimulatedCluster) -> None:
    async def versions(runtime: Runtime, listener: str) -> set[ApiKey]:
        connection: Connection = await open_connection(runtime.network, endpoint(cluster, 2, listener), LIMITS)
        connection.close()
        return set(connection.versions)

    known_to_brokers = cluster.tell(lambda runtime: versions(runtime, "REPLICATION"))
    known_to_clients = cluster.tell(lambda runtime: versions(runtime, "PLAINTEXT"))
    assert known_to_brokers - known_to_clients == {key for key, api in API_TABLE.items() if api.is_broker_only}
    assert ApiKey.DESCRIBE_REPLICAS not in known_to_brokers


def test_clients_are_told_only_the_listener_they_came_by(cluster: SimulatedCluster) -> None:
    for listener in ("PLAINTEXT", "REPLICATION"):
        response = ask(cluster, 3, MetadataRequest(topics=()), listener=listener)
        told = {(broker.node_id, broker.host, broker.port) for broker in response.brokers}
        assert told == {(one, *endpoint(cluster, one, listener)) for one in (1, 2, 3)}


# What only the controller decides.


def test_any_broker_makes_and_deletes_topics(cluster: SimulatedCluster) -> None:
    for broker_id in others(cluster):
        topic = CreatableTopic(name=f"by-{broker_id}", num_partitions=2, replication_factor=3)
        (made,) = ask(cluster, broker_id, CreateTopicsRequest(topics=(topic,))).topics
        assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)
        for asked in (1, 2, 3):
            request = MetadataRequest(topics=(MetadataRequestTopic(name=topic.name),), allow_auto_topic_creation=False)
            (known,) = ask(cluster, asked, request).topics
            assert (known.error_code, known.topic_id) == (ErrorCode.NONE, made.topic_id)
        (gone,) = ask(
            cluster,
            broker_id,
            DeleteTopicsRequest(topics=(DeleteTopicState(name=topic.name),), timeout_ms=9000),
            version=6,
        ).responses
        assert gone.error_code is ErrorCode.NONE
        assert all(not any(True for _ in broker.partitions()) for broker in cluster.brokers.values())


def test_topic_asked_for_at_any_broker_is_made(cluster: SimulatedCluster) -> None:
    for broker_id in others(cluster):
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=f"auto-{broker_id}"),))
        (topic,) = ask(cluster, broker_id, asked).topics
        assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 1)


def test_reassignments_are_listed_at_any_broker(cluster: SimulatedCluster) -> None:
    for broker_id in (1, 2, 3):
        response = ask(cluster, broker_id, ListPartitionReassignmentsRequest(topics=None))
        assert (response.error_code, response.topics) == (ErrorCode.NONE, ())


def altered(resource_type: int, name: str, setting: str, value: str) -> IncrementalAlterConfigsRequest:
    """Set one setting."""
    config = AlterableConfig(name=setting, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=(config,))
    return IncrementalAlterConfigsRequest(resources=(resource,))


def setting_of(cluster: SimulatedCluster, asked: BrokerId, resource_type: int, name: str, setting: str) -> str | None:
    """What a broker says of a setting."""
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=(setting,))
    (result,) = ask(cluster, asked, DescribeConfigsRequest(resources=(resource,))).results
    return result.configs[0].value


def test_settings_altered_at_any_broker_hold_there_at_once_and_soon_everywhere(cluster: SimulatedCluster) -> None:
    make_topic(cluster, (1, 2, 3))
    for value, broker_id in enumerate((1, 2, 3), 1_000_000):
        (result,) = ask(cluster, broker_id, altered(TOPIC, "t", "max.message.bytes", str(value))).responses
        assert result.error_code is ErrorCode.NONE
        assert setting_of(cluster, broker_id, TOPIC, "t", "max.message.bytes") == str(value)
        cluster.until(
            lambda value=value: all(  # type: ignore[misc]
                partition.log.config.max_message_bytes == value
                for broker in cluster.brokers.values()
                for partition in broker.partitions()
            ),
            "every replica goes by it",
        )


def test_settings_of_a_broker_are_altered_for_it_and_for_nobody_else(cluster: SimulatedCluster) -> None:
    for broker_id in (1, 2, 3):
        name = "follower.replication.throttled.rate"
        (result,) = ask(cluster, broker_id, altered(BROKER, str(broker_id), name, f"{broker_id}000")).responses
        assert result.error_code is ErrorCode.NONE
        assert setting_of(cluster, broker_id, BROKER, str(broker_id), name) == f"{broker_id}000"


def test_n03_admin_request_at_a_broker_that_cannot_reach_the_controller_is_refused_in_time(
    cluster: SimulatedCluster,
) -> None:
    assert cluster.controller is not None
    asked = others(cluster)[0]
    cluster.world.fabric.faults.partition([f"broker-{asked}"], [f"broker-{cluster.controller.broker_id}"])
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    (refused,) = ask(cluster, asked, CreateTopicsRequest(topics=(topic,))).topics
    assert refused.error_code is ErrorCode.NOT_CONTROLLER
    cluster.world.fabric.faults.heal()


# Leaving and failing.


@pytest.mark.parametrize("leaver", ["leader", "controller"])
def test_broker_that_leaves_hands_over_before_it_goes(cluster: SimulatedCluster, leaver: str) -> None:
    make_topic(cluster, (1, 2, 3))
    assert cluster.controller is not None
    leaving = cluster.leader(T0) if leaver == "leader" else cluster.controller
    before = cluster.state(T0)
    cluster.world.run(leaving.stop())
    after = cluster.state(T0)
    assert leaving.broker_id not in (after.leader, *after.isr)
    assert (after.leader_epoch > before.leader_epoch) == (leaving.broker_id == before.leader)
    assert produce(cluster, b"v") == 0
    leaving.restart()
    cluster.until(lambda: is_whole(cluster, T0), "it is back in sync")


def test_broker_that_restarts_cleanly_or_is_killed_keeps_its_standing_and_one_that_lost_power_does_not(
    cluster: SimulatedCluster,
) -> None:
    def is_intact(broker_id: BrokerId) -> bool:
        node = cluster.store.tree.peek(layout.broker_path(broker_id))
        assert node is not None
        return layout.decode_broker(broker_id, node).is_intact

    one = cluster.brokers[others(cluster)[0]]
    cluster.world.run(one.stop())
    one.restart()
    cluster.until_ready()
    assert is_intact(one.broker_id)
    one.kill()
    one.restart()
    cluster.until_ready()
    assert is_intact(one.broker_id)
    one.power_cut()
    one.restart()
    cluster.until_ready()
    assert not is_intact(one.broker_id)


def test_session_that_expires_is_replaced_and_the_broker_keeps_its_replicas(cluster: SimulatedCluster) -> None:
    make_topic(cluster, (1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.store.expire_node(f"broker-{broker_id}")
        cluster.until(lambda: is_whole(cluster, T0), "all replicas are in sync again")
    assert produce(cluster, b"v") == 0


def test_d14_leader_whose_disk_fails_is_replaced_though_its_broker_lives_on() -> None:
    settings = {"log.dirs": "/a,/b", "replica.lag.time.max.ms": "2000", **SAFE}
    with SimulatedCluster(3, brokers=3, settings=settings) as cluster:
        cluster.until_ready()
        make_topic(cluster, (1, 2, 3))
        leader = cluster.leader(T0)
        (partition,) = [one for one in leader.partitions() if one.topic_partition == T0]
        directory = partition.log.directory.rpartition("/")[0]
        leader.node.disk.faults.make_read_only(directory)
        cluster.until(lambda: cluster.state(T0).leader not in (leader.broker_id, -1), "another one leads")
        assert produce(cluster, b"v") == 0
        assert leader.broker_id not in cluster.state(T0).isr
        leader.node.disk.faults.heal()


def test_describe_replicas_tells_of_the_broker_that_answers(cluster: SimulatedCluster) -> None:
    make_topic(cluster, (2, 1, 3))
    produce(cluster, b"v")
    cluster.until(lambda: is_whole(cluster, T0), "all replicas have it")
    roles = {}
    for broker_id in (1, 2, 3):
        response = ask(cluster, broker_id, DescribeReplicasRequest(topics=None), version=0)
        (topic,) = response.topics
        (replica,) = topic.partitions
        assert (response.broker_id, TopicPartition(topic.topic, replica.partition_index)) == (broker_id, T0)
        roles[broker_id] = (replica.is_leader, replica.leader_id, replica.log_end_offset, len(replica.remotes))
    assert roles == {1: (False, 2, 1, 0), 2: (True, 2, 1, 2), 3: (False, 2, 1, 0)}

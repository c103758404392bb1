"""Every advertised version of every API, asked of a running broker; and what it says to those it does not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.group_checks import GROUP_CHECKS
from tests.broker.group_talk import wait_for_coordinator
from tests.broker.transaction_checks import TRANSACTION_CHECKS
from tests.compatibility.processes import TidelogProcess
from tests.wire.fuzzer import valid_frame
from tests.wire.oracle import Case
from tidelog.model import ErrorCode
from tidelog.records import RecordBatchBuilder
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages import alter_configs, elect_leaders, incremental_alter_configs
from tidelog.wire.messages import alter_partition_reassignments as reassignments
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.count_visible_records import CountFrom, CountInTopic, CountVisibleRecordsRequest
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.describe_producers import DescribeProducersRequest
from tidelog.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from tidelog.wire.messages.describe_replicas import DescribeReplicasRequest, ReplicasWanted
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.inject_faults import BEGIN, Fault, FaultKind, InjectFaultsRequest
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.slow
CASES = [(key, version) for key, api in API_TABLE.items() if not api.is_broker_only for version in api.served]
OF_BROKERS = [(key, version) for key, api in API_TABLE.items() if api.is_broker_only for version in api.served]


@pytest.mark.parametrize(("key", "version"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_every_served_version_works(tidelog: TidelogProcess, key: ApiKey, version: int) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        CHECKS[key](conversation, version, f"v-{key.name.lower()}-{version}")


@pytest.mark.parametrize(("key", "version"), OF_BROKERS, ids=lambda value: getattr(value, "name", str(value)))
def test_what_brokers_ask_each_other_is_not_served_to_clients(
    tidelog: TidelogProcess, key: ApiKey, version: int
) -> None:
    frame = valid_frame(Case(key, version, is_request=True), SimulatedRandomness(f"{key}/{version}"))
    with Conversation(tidelog.bootstrap) as conversation:
        conversation.send_bytes(len(frame).to_bytes(4, "big") + frame)
        assert conversation.is_closed_by_peer()


def produced(
    conversation: Conversation, version: int, topic: str, *, acks: int = -1, value: bytes = b"v"
) -> ProduceRequest:
    topic_id = topic_id_of(conversation, topic)
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=1_700_000_000_000, key=b"k", value=value)
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=(
            TopicProduceData(
                name=topic if version < 13 else "",
                topic_id=topic_id if version >= 13 else None,
                partition_data=(PartitionProduceData(index=0, records=builder.build()),),
            ),
        ),
    )


def check_produce(conversation: Conversation, version: int, topic: str) -> None:
    for offset in range(2):
        (answered,) = conversation.ask(produced(conversation, version, topic), version).responses
        (partition,) = answered.partition_responses
        assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, offset)


def check_fetch(conversation: Conversation, version: int, topic: str) -> None:
    topic_id = topic_id_of(conversation, topic)
    conversation.ask(produced(conversation, 12, topic), 12)
    by_id = version >= 13
    request = FetchRequest(
        max_wait_ms=5_000,
        min_bytes=1,
        topics=(
            FetchTopic(
                topic="" if by_id else topic,
                topic_id=topic_id if by_id else None,
                partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),),
            ),
        ),
    )
    (answered,) = conversation.ask(request, version).responses
    (partition,) = answered.partitions
    assert (partition.error_code, partition.high_watermark) == (ErrorCode.NONE, 1)
    assert len(partition.records or b"") > 61
    assert answered.topic_id == (topic_id if by_id else None)


def check_list_offsets(conversation: Conversation, version: int, topic: str) -> None:
    conversation.ask(produced(conversation, 12, topic), 12)
    expected = {-2: 0, -1: 1, 1_700_000_000_000: 0, 1_700_000_000_001: -1}
    for special, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
        if version >= since:
            expected[special] = {-3: 0, -4: 0}.get(special, -1)
    for timestamp, offset in expected.items():
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
        (answered,) = conversation.ask(request, version).topics
        assert (answered.partitions[0].error_code, answered.partitions[0].offset) == (ErrorCode.NONE, offset), timestamp


def check_metadata(conversation: Conversation, version: int, topic: str) -> None:
    topic_id = topic_id_of(conversation, topic)
    by_name = (MetadataRequestTopic(name=topic, topic_id=None),)
    answer = conversation.ask(MetadataRequest(topics=by_name), version)
    assert [(found.name, len(found.partitions)) for found in answer.topics] == [(topic, 1)]
    assert [broker.node_id for broker in answer.brokers] == [1]
    if version >= 12:
        by_id = (MetadataRequestTopic(name=None, topic_id=topic_id),)
        assert conversation.ask(MetadataRequest(topics=by_id), version).topics[0].name == topic
    elif version >= 10:  # Their requests have a place for ids, and their answers one for names that must be there.
        mixed = (*by_name, MetadataRequestTopic(name=None, topic_id=topic_id), MetadataRequestTopic(name=None))
        refused = conversation.ask(MetadataRequest(topics=mixed), version).topics
        assert [(found.name, found.error_code) for found in refused] == [
            (name, ErrorCode.INVALID_REQUEST) for name in (topic, "", "")
        ]
    everything = conversation.ask(MetadataRequest(topics=() if version == 0 else None), version)
    assert topic in {found.name for found in everything.topics}
    if version >= 1:
        assert conversation.ask(MetadataRequest(topics=()), version).topics == ()


def check_api_versions(conversation: Conversation, version: int, _topic: str) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = conversation.ask(request, version)
    advertised = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert advertised == {
        key: (api.advertised.low, api.advertised.high)
        for key, api in API_TABLE.items()
        if not api.is_broker_only and not api.is_private
    }


def check_create_topics(conversation: Conversation, version: int, topic: str) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=2, replication_factor=1, assignments=(), configs=())
    (created,) = conversation.ask(CreateTopicsRequest(topics=(wanted,)), version).topics
    (refused,) = conversation.ask(CreateTopicsRequest(topics=(wanted,)), version).topics
    assert (created.error_code, refused.error_code) == (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        assert {row.name: row.value for row in created.configs or ()}["cleanup.policy"] == "delete"


def check_delete_topics(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    names = (topic, "no-such-topic")
    by_state = tuple(DeleteTopicState(name=name) for name in names)
    request = (
        DeleteTopicsRequest(topics=by_state, timeout_ms=10_000)
        if version >= 6
        else DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    )
    answered = conversation.ask(request, version).responses
    assert [row.error_code for row in answered] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def check_find_coordinator(conversation: Conversation, version: int, topic: str) -> None:
    wait_for_coordinator(conversation, topic)
    if version < 4:
        answer = conversation.ask(FindCoordinatorRequest(key=topic), version)
        assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, 1)
        return
    answer = conversation.ask(FindCoordinatorRequest(coordinator_keys=(topic, "other")), version)
    assert [(row.key, row.error_code, row.node_id) for row in answer.coordinators] == [
        (topic, ErrorCode.NONE, 1),
        ("other", ErrorCode.NONE, 1),
    ]


def check_delete_records(conversation: Conversation, version: int, topic: str) -> None:
    for _ in range(2):
        conversation.ask(produced(conversation, 12, topic), 12)
    for asked, answered in (
        (1, (ErrorCode.NONE, 1)),
        (-1, (ErrorCode.NONE, 2)),
        (3, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ):
        partition = DeleteRecordsPartition(partition_index=0, offset=asked)
        request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(partition,)),))
        (result,) = conversation.ask(request, version).topics
        assert (result.partitions[0].error_code, result.partitions[0].low_watermark) == answered


def check_offset_for_leader_epoch(conversation: Conversation, version: int, topic: str) -> None:
    conversation.ask(produced(conversation, 12, topic), 12)
    for epoch, answered in ((0, (0, 1)), (5, (-1, -1))):
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),))
        (found,) = conversation.ask(request, version).topics
        (partition,) = found.partitions
        assert (found.topic, partition.error_code) == (topic, ErrorCode.NONE)
        assert (partition.leader_epoch, partition.end_offset) == answered


def check_describe_cluster(conversation: Conversation, version: int, _topic: str) -> None:
    answer = conversation.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.controller_id, len(answer.cluster_id)) == (ErrorCode.NONE, 1, 22)
    assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == [(1, False)]
    assert answer.cluster_authorized_operations > 0


def check_describe_log_dirs(conversation: Conversation, version: int, topic: str) -> None:
    conversation.ask(produced(conversation, 12, topic), 12)
    asked = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic=topic, partitions=(0, 1)),))
    (directory,) = conversation.ask(asked, version).results
    assert directory.error_code is ErrorCode.NONE
    ((partition,),) = [found.partitions for found in directory.topics]
    assert (partition.partition_index, partition.partition_size > 61, partition.offset_lag) == (0, True, 0)
    assert (directory.total_bytes > directory.usable_bytes > 0) == (version >= 4)
    (everything,) = conversation.ask(DescribeLogDirsRequest(topics=None), version).results
    assert topic in {found.name for found in everything.topics}


def check_describe_topic_partitions(conversation: Conversation, version: int, topic: str) -> None:
    topic_id = topic_id_of(conversation, topic)
    asked = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),))
    answer = conversation.ask(asked, version)
    (found,) = answer.topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.NONE, topic, topic_id)
    assert [(row.partition_index, row.leader_id, row.isr_nodes) for row in found.partitions] == [(0, 1, (1,))]
    assert answer.next_cursor is None


def check_describe_producers(conversation: Conversation, version: int, topic: str) -> None:
    conversation.ask(produced(conversation, 12, topic), 12)
    asked = DescribeProducersRequest(topics=(ProducersOfTopic(name=topic, partition_indexes=(0,)),))
    (found,) = conversation.ask(asked, version).topics
    assert [(row.error_code, row.active_producers) for row in found.partitions] == [(ErrorCode.NONE, ())]


def check_list_config_resources(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    answer = conversation.ask(ListConfigResourcesRequest(), version)
    assert answer.error_code is ErrorCode.NONE
    listed = {(row.resource_type, row.resource_name) for row in answer.config_resources}
    assert ({(2, topic), (4, "1")} <= listed) == (version >= 1)


def check_create_partitions(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    request = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name=topic, count=3),))
    (grown,) = conversation.ask(request, version).results
    (refused,) = conversation.ask(request, version).results
    assert (grown.error_code, refused.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS)
    (found,) = conversation.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic, topic_id=None),)), 12).topics
    assert [(row.partition_index, row.leader_id) for row in found.partitions] == [(0, 1), (1, 1), (2, 1)]


def topic_value(conversation: Conversation, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=(name,))
    (result,) = conversation.ask(DescribeConfigsRequest(resources=(resource,)), 4).results
    return result.configs[0].value


def check_alter_configs(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    for value in ("1000", "2000"):
        configs = (alter_configs.AlterableConfig(name="retention.ms", value=value),)
        resource = alter_configs.AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
        (answered,) = conversation.ask(alter_configs.AlterConfigsRequest(resources=(resource,)), version).responses
        assert (answered.error_code, answered.error_message) == (ErrorCode.NONE, None)
        assert topic_value(conversation, topic, "retention.ms") == value


def check_incremental_alter_configs(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    for operation, value, expected in ((2, "compact", "delete,compact"), (3, "delete", "compact"), (1, None, "delete")):
        change = incremental_alter_configs.AlterableConfig(
            name="cleanup.policy", config_operation=operation, value=value
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=2, resource_name=topic, configs=(change,)
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))
        (answered,) = conversation.ask(request, version).responses
        assert answered.error_code is ErrorCode.NONE
        assert topic_value(conversation, topic, "cleanup.policy") == expected


def check_describe_configs(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    resources = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in ((2, topic), (4, "1"))
    )
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=version >= 3)
    of_topic, of_broker = conversation.ask(request, version).results
    (policy,) = [row for row in of_topic.configs if row.name == "cleanup.policy"]
    assert (policy.value, policy.read_only, policy.config_source, policy.is_sensitive) == ("delete", False, 5, False)
    assert [(row.name, row.value, row.source) for row in policy.synonyms] == [("log.cleanup.policy", "delete", 5)]
    assert (policy.config_type, bool(policy.documentation)) == ((7, True) if version >= 3 else (0, False))
    assert {"node.id": True, "log.retention.ms": False}.items() <= {
        row.name: row.read_only for row in of_broker.configs
    }.items()


def check_elect_leaders(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    wanted = (elect_leaders.TopicPartitions(topic=topic, partitions=(0, 9)),)
    answer = conversation.ask(elect_leaders.ElectLeadersRequest(topic_partitions=wanted), version)
    assert answer.error_code is ErrorCode.NONE
    (answered,) = answer.replica_election_results
    assert {row.partition_id: row.error_code for row in answered.partition_result} == {
        0: ErrorCode.ELECTION_NOT_NEEDED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def check_alter_partition_reassignments(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    partitions = (
        reassignments.ReassignablePartition(partition_index=0, replicas=(77,)),
        reassignments.ReassignablePartition(partition_index=9, replicas=(1,)),
    )
    wanted = (reassignments.ReassignableTopic(name=topic, partitions=partitions),)
    answer = conversation.ask(reassignments.AlterPartitionReassignmentsRequest(topics=wanted), version)
    assert answer.error_code is ErrorCode.NONE
    (answered,) = answer.responses
    assert {row.partition_index: row.error_code for row in answered.partitions} == {
        0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def check_list_partition_reassignments(conversation: Conversation, version: int, _topic: str) -> None:
    answer = conversation.ask(ListPartitionReassignmentsRequest(topics=None), version)
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, ())


def check_describe_replicas(conversation: Conversation, version: int, topic: str) -> None:
    topic_id = topic_id_of(conversation, topic)
    conversation.ask(produced(conversation, 12, topic), 12)
    wanted = (ReplicasWanted(topic=topic, partitions=(0, 9)),)
    answer = conversation.ask(DescribeReplicasRequest(topics=wanted), version)
    (answered,) = answer.topics
    here, nowhere = answered.partitions
    assert (answer.broker_id, answered.topic_id) == (1, topic_id)
    assert (here.error_code, here.is_leader, here.log_end_offset, here.isr) == (ErrorCode.NONE, True, 1, (1,))
    assert nowhere.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_count_visible_records(conversation: Conversation, version: int, topic: str) -> None:
    topic_id_of(conversation, topic)
    conversation.ask(produced(conversation, 12, topic), 12)
    wanted = tuple(CountFrom(partition_index=index, offset=0) for index in (0, 9))
    request = CountVisibleRecordsRequest(topics=(CountInTopic(topic=topic, partitions=wanted),))
    (answered,) = conversation.ask(request, version).topics
    here, nowhere = answered.partitions
    assert (here.error_code, here.visible_count, here.is_exact, here.counted_to) == (ErrorCode.NONE, 1, True, 1)
    assert nowhere.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_inject_faults(conversation: Conversation, version: int, _topic: str) -> None:
    fault = Fault(kind=FaultKind.FULL_DISK)
    refused = conversation.ask(InjectFaultsRequest(action=BEGIN, faults=(fault,)), version)
    assert refused.error_code is ErrorCode.POLICY_VIOLATION
    assert "was not started for tests" in (refused.error_message or "")
    assert refused.faults == ()


CHECKS: dict[ApiKey, Callable[[Conversation, int, str], None]] = {
    ApiKey.PRODUCE: check_produce,
    ApiKey.FETCH: check_fetch,
    ApiKey.LIST_OFFSETS: check_list_offsets,
    ApiKey.METADATA: check_metadata,
    ApiKey.API_VERSIONS: check_api_versions,
    ApiKey.CREATE_TOPICS: check_create_topics,
    ApiKey.DELETE_TOPICS: check_delete_topics,
    ApiKey.FIND_COORDINATOR: check_find_coordinator,
    ApiKey.CREATE_PARTITIONS: check_create_partitions,
    ApiKey.DESCRIBE_CONFIGS: check_describe_configs,
    ApiKey.ALTER_CONFIGS: check_alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: check_incremental_alter_configs,
    ApiKey.DELETE_RECORDS: check_delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: check_offset_for_leader_epoch,
    ApiKey.DESCRIBE_CLUSTER: check_describe_cluster,
    ApiKey.DESCRIBE_LOG_DIRS: check_describe_log_dirs,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: check_describe_topic_partitions,
    ApiKey.DESCRIBE_PRODUCERS: check_describe_producers,
    ApiKey.LIST_CONFIG_RESOURCES: check_list_config_resources,
    ApiKey.ELECT_LEADERS: check_elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: check_alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: check_list_partition_reassignments,
    ApiKey.DESCRIBE_REPLICAS: check_describe_replicas,
    ApiKey.COUNT_VISIBLE_RECORDS: check_count_visible_records,
    ApiKey.INJECT_FAULTS: check_inject_faults,
    **GROUP_CHECKS,
    **TRANSACTION_CHECKS,
}

"""The admin clients of confluent-kafka and kafka-python, unmodified, against a broker as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import TypeVar

import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import admin as kafka_admin

from tests.compatibility.processes import TidelogProcess

pytestmark = pytest.mark.slow
K = TypeVar("K")
T = TypeVar("T")
TIMEOUT_S = 60


def only(futures: Mapping[K, Future[T]]) -> T:
    (future,) = futures.values()
    return future.result(timeout=TIMEOUT_S)


def refusal(futures: Mapping[K, Future[T]]) -> int:
    with pytest.raises(KafkaException) as refused:
        only(futures)
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    return error.code()


def entry(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


@pytest.fixture
def confluent(tidelog: TidelogProcess, topic: str) -> AdminClient:
    client = AdminClient({"bootstrap.servers": tidelog.bootstrap})
    only(client.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)]))
    return client


@pytest.fixture
def kafka_python(tidelog: TidelogProcess, topic: str) -> Iterator[kafka_admin.KafkaAdminClient]:
    client = kafka_admin.KafkaAdminClient(bootstrap_servers=tidelog.bootstrap)
    client.create_topics([kafka_admin.NewTopic(topic, 2, 1)])
    yield client
    client.close()


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(count):
        producer.send(topic, b"v", partition=0).get(timeout=TIMEOUT_S)
    producer.close()


def test_confluent_describes_the_cluster_and_its_topics(
    confluent: AdminClient, tidelog: TidelogProcess, topic: str
) -> None:
    cluster = confluent.describe_cluster(include_authorized_operations=True).result(timeout=TIMEOUT_S)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, tidelog.bootstrap)]
    assert cluster.controller.id == 1
    described = only(confluent.describe_topics(confluent_kafka.TopicCollection([topic])))
    assert [(partition.id, partition.leader.id) for partition in described.partitions] == [(0, 1), (1, 1)]
    assert topic in confluent.list_topics(timeout=TIMEOUT_S).topics


def test_confluent_adds_partitions(confluent: AdminClient, topic: str) -> None:
    only(confluent.create_partitions([NewPartitions(topic, 4)]))
    assert sorted(confluent.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == [0, 1, 2, 3]
    assert refusal(confluent.create_partitions([NewPartitions(topic, 3)])) == KafkaError.INVALID_PARTITIONS
    assert refusal(confluent.create_partitions([NewPartitions("nobody", 3)])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_confluent_sees_and_alters_settings(confluent: AdminClient, topic: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    before = only(confluent.describe_configs([resource]))
    assert (before["cleanup.policy"].value, before["cleanup.policy"].is_default) == ("delete", True)
    changes = [
        entry("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        entry("retention.ms", "1000", AlterConfigOpType.SET),
    ]
    altered = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    only(confluent.incremental_alter_configs([altered]))
    after = only(confluent.describe_configs([resource]))
    assert {name: after[name].value for name in ("cleanup.policy", "retention.ms")} == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "1000",
    }
    wrong = [entry("retention.ms", "soon", AlterConfigOpType.SET)]
    refused = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=wrong)
    assert refusal(confluent.incremental_alter_configs([refused])) == KafkaError.INVALID_CONFIG


def test_confluent_sees_and_alters_the_settings_of_a_broker(confluent: AdminClient) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    settings = only(confluent.describe_configs([resource]))
    assert (settings["node.id"].value, settings["node.id"].is_read_only) == ("1", True)
    changed = [entry("tidelog.topic.partitions.max", "9999", AlterConfigOpType.SET)]
    only(
        confluent.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=changed)]
        )
    )
    after = only(confluent.describe_configs([resource]))["tidelog.topic.partitions.max"]
    assert (after.value, after.is_read_only, after.source) == ("9999", False, 2)
    needs_a_restart = [entry("node.id", "2", AlterConfigOpType.SET)]
    refused = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=needs_a_restart)
    assert refusal(confluent.incremental_alter_configs([refused])) == KafkaError.INVALID_REQUEST


def test_confluent_deletes_records(confluent: AdminClient, tidelog: TidelogProcess, topic: str) -> None:
    fill(tidelog.bootstrap, topic, 5)
    deleted = only(confluent.delete_records([confluent_kafka.TopicPartition(topic, 0, 3)]))
    assert deleted.low_watermark == 3
    refused = confluent.delete_records([confluent_kafka.TopicPartition(topic, 0, 99)])
    assert refusal(refused) == KafkaError.OFFSET_OUT_OF_RANGE


def test_kafka_python_describes_the_cluster_its_topics_directories_and_resources(
    kafka_python: kafka_admin.KafkaAdminClient, topic: str
) -> None:
    cluster = kafka_python.describe_cluster()
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
    (described,) = kafka_python.describe_topics([topic])
    assert [partition["leader_id"] for partition in described["partitions"]] == [1, 1]
    paged = kafka_python.describe_topic_partitions([topic], response_partition_limit=1)
    assert [len(found["partitions"]) for found in paged["topics"]] == [1]
    assert topic in kafka_python.list_topics()
    (broker,) = kafka_python.describe_log_dirs()
    shown = {found["name"] for directory in broker["log_dirs"] for found in directory["topics"]}
    assert topic in shown
    resources = kafka_python.list_config_resources()
    assert topic in resources["topic"]
    assert resources["broker"] == ["1"]


def test_kafka_python_adds_partitions(kafka_python: kafka_admin.KafkaAdminClient, topic: str) -> None:
    kafka_python.create_partitions({topic: kafka_admin.NewPartitions(3)})
    kafka_python.create_partitions({topic: kafka_admin.NewPartitions(5, [[1], [1]])})
    (described,) = kafka_python.describe_topics([topic])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_incremental", [True, False])
def test_kafka_python_sees_alters_and_resets_settings(
    kafka_python: kafka_admin.KafkaAdminClient, topic: str, *, is_incremental: bool
) -> None:
    kind = kafka_admin.ConfigResourceType.TOPIC
    altered = kafka_admin.ConfigResource(kind, topic, configs={"retention.ms": "1000"})
    kafka_python.alter_configs([altered], incremental=is_incremental)
    plain = kafka_admin.ConfigResource(kind, topic)
    described = kafka_python.describe_configs([plain], include_synonyms=True)["topic"][topic]["retention.ms"]
    assert (described["value"], described["config_source"]) == ("1000", "DYNAMIC_TOPIC_CONFIG")
    assert [(synonym["name"], synonym["source"]) for synonym in described["synonyms"]] == [
        ("retention.ms", "DYNAMIC_TOPIC_CONFIG"),
        ("log.retention.ms", "STATIC_BROKER_CONFIG"),  # `up` keeps everything
        ("log.retention.ms", "DEFAULT_CONFIG"),
    ]
    kafka_python.reset_configs([kafka_admin.ConfigResource(kind, topic, configs=["retention.ms"])])
    everything = kafka_python.describe_configs([plain], config_filter="all")["topic"][topic]
    assert everything["retention.ms"]["value"] == "-1"


def test_kafka_python_deletes_records_and_sees_producers(
    kafka_python: kafka_admin.KafkaAdminClient, tidelog: TidelogProcess, topic: str
) -> None:
    fill(tidelog.bootstrap, topic, 5)
    partition = kafka.TopicPartition(topic, 0)
    assert kafka_python.delete_records({partition: 3})[partition]["low_watermark"] == 3
    (producer,) = kafka_python.describe_producers([partition])[partition].active_producers
    assert (producer.last_sequence, producer.current_transaction_start_offset) == (4, -1)

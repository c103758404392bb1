"""The cluster in the shape of testcontainers' `KafkaContainer`."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from tidelog.testing import ClusterFailed, KafkaContainer

pytestmark = pytest.mark.slow


def test_it_is_used_as_the_other_is() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", "3") as kafka:
        bootstrap = kafka.get_bootstrap_server()
        assert bootstrap == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        found = admin.list_topics("made-by-asking", timeout=90)
        assert len(found.topics["made-by-asking"].partitions) in {0, 3}  # 0 while it is only just being made
        assert kafka.get_logs()[0]


def test_what_images_are_told_of_listeners_changes_nothing() -> None:
    container = KafkaContainer(port=9092).with_env("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9092")
    container.with_env("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://broker:9092").start().stop()


def test_one_that_was_not_started_says_so() -> None:
    with pytest.raises(ClusterFailed, match="has not been started"):
        KafkaContainer().get_bootstrap_server()


def test_a_setting_that_makes_no_sense_is_named() -> None:
    with pytest.raises(ClusterFailed, match=r"num\.partitions"):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()


def test_what_containers_are_told_besides_changes_nothing_where_it_is_harmless() -> None:
    container = (
        KafkaContainer().with_name("kafka").with_exposed_ports(9092).with_bind_ports(9093).with_network(object())
    )
    container.with_kwargs(mem_limit="1g").waiting_for(object())
    container.with_envs(KAFKA_NUM_PARTITIONS="3", KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE="false")
    with container as kafka:
        assert kafka.get_bootstrap_server()


@pytest.mark.parametrize(
    ("verb", "arguments", "sentence"),
    [
        ("with_bind_ports", (9093, 9093), "port 9093 cannot be chosen: the cluster takes a free one"),
        ("with_network_aliases", ("kafka",), "other containers cannot reach a broker on loopback"),
        ("with_command", ("sh",), "a command needs a container, and this is a process"),
        ("with_volume_mapping", ("/a", "/b"), "Cluster(data=DIR) keeps what its brokers have"),
        ("exec", ("kafka-topics",), "to run a command in it needs a container"),
    ],
)
def test_what_needs_a_container_is_refused_with_what_does_it_instead(
    verb: str, arguments: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(ClusterFailed) as refused:
        getattr(KafkaContainer(), verb)(*arguments)
    assert sentence in str(refused.value)

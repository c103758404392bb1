"""What admin clients change of a topic that is there, its settings and its partitions: Java 3.9, Java 4.x and KafkaJS, unmodified."""

from __future__ import annotations

import pytest

from tests.compatibility.drivers import Driver, Received
from tests.compatibility.message import BASE_TIMESTAMP_MS, Message, messages
from tests.compatibility.test_admin_clients import refusal

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def test_a_topic_grows_and_takes_records_in_its_new_partitions(client: Driver, topic: str) -> None:
    client.ask("create", topic, 1, "")
    client.ask("grow", topic, 3)
    assert [row[:2] for row in client.ask("describe", topic)] == [["0", "1"], ["1", "1"], ["2", "1"]]
    client.produce(topic, messages(), partition=2)
    assert client.consume(topic, len(messages()), partition=2) == [*map(Received, range(54), messages())]


@pytest.mark.parametrize("count", [1, 2])
def test_java_hears_that_a_topic_does_not_shrink(java: Driver, topic: str, count: int) -> None:
    java.ask("create", topic, 2, "")
    with refusal("InvalidPartitionsException"):
        java.ask("grow", topic, count)


def settings_of(client: Driver, topic: str) -> dict[str, list[str]]:
    return {name: rest for name, *rest in client.ask("settings", "TOPIC", topic)}


def test_java_reads_settings_and_where_they_come_from(java: Driver, topic: str) -> None:
    java.ask("create", topic, 1, "retention.bytes=123456")
    settings = settings_of(java, topic)
    assert settings["retention.bytes"] == ["123456", "DYNAMIC_TOPIC_CONFIG", "false", "LONG"]
    assert settings["retention.ms"] == ["-1", "STATIC_BROKER_CONFIG", "false", "LONG"]
    assert settings["max.message.bytes"] == ["1048588", "DEFAULT_CONFIG", "false", "INT"]
    assert settings["cleanup.policy"] == ["delete", "DEFAULT_CONFIG", "false", "LIST"]


def test_kafkajs_reads_settings(node: Driver, topic: str) -> None:
    node.ask("create", topic, 1, "retention.bytes=123456")
    settings = settings_of(node, topic)
    assert settings["retention.bytes"][0] == "123456"
    assert settings["max.message.bytes"][0] == "1048588"


def test_java_changes_settings_and_they_work_at_once(java: Driver, topic: str) -> None:
    java.ask("create", topic, 1, "retention.bytes=123456")
    large = Message(b"k", b"x" * 1000, (), BASE_TIMESTAMP_MS)
    java.produce(topic, [large])

    java.ask(
        "configure",
        "TOPIC",
        topic,
        "SET max.message.bytes=500",
        "DELETE retention.bytes",
        "APPEND cleanup.policy=compact",
    )
    settings = settings_of(java, topic)
    assert settings["max.message.bytes"][:2] == ["500", "DYNAMIC_TOPIC_CONFIG"]
    assert settings["retention.bytes"][:2] == ["-1", "DEFAULT_CONFIG"]
    assert settings["cleanup.policy"][:2] == ["delete,compact", "DYNAMIC_TOPIC_CONFIG"]
    with refusal("RecordTooLargeException"):
        java.produce(topic, [large])

    java.ask("configure", "TOPIC", topic, "DELETE max.message.bytes", "SUBTRACT cleanup.policy=delete")
    assert settings_of(java, topic)["cleanup.policy"][0] == "compact"
    assert java.produce(topic, [large])[0].offset == 1


def test_kafkajs_replaces_settings(node: Driver, topic: str) -> None:
    node.ask("create", topic, 1, "retention.bytes=123456")
    node.ask("configure", "TOPIC", topic, "SET segment.bytes=2000000")
    settings = settings_of(node, topic)
    assert (settings["segment.bytes"][0], settings["retention.bytes"][0]) == ("2000000", "-1")


@pytest.mark.parametrize(
    "operation", ["SET retention.ms=soon", "SET no.such.setting=1", "APPEND retention.ms=1"], ids=str.lower
)
def test_java_hears_why_a_setting_is_not_changed(java: Driver, topic: str, operation: str) -> None:
    java.ask("create", topic, 1, "")
    before = settings_of(java, topic)
    with refusal("InvalidConfigurationException"):
        java.ask("configure", "TOPIC", topic, "SET max.message.bytes=500", operation)
    assert settings_of(java, topic) == before


def test_java_reads_the_settings_of_the_broker(java: Driver) -> None:
    settings = {name: rest for name, *rest in java.ask("settings", "BROKER", "1")}
    assert settings["log.retention.ms"][:2] == ["-1", "STATIC_BROKER_CONFIG"]
    assert settings["num.partitions"][0] == "1"
    assert settings["node.id"] == ["1", "STATIC_BROKER_CONFIG", "true", "INT"]

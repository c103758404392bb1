"""kafka-topics and kafka-configs, in Java, against Tidelog: what topics are like and how that is changed."""

from __future__ import annotations

import re

import pytest

from tests.compatibility.apache_kafka import KafkaProcess
from tests.compatibility.processes import ProcessFailed, TidelogProcess
from tests.compatibility.test_kafka_admin_tools import tool

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.usefixtures("kafka_jars")]

# Kafka's settings of topics that Tidelog does not have.
OF_TIERED_STORAGE = {
    "local.retention.bytes",
    "local.retention.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
}


def topics(broker: TidelogProcess | KafkaProcess, *words: str) -> str:
    return tool(broker, "org.apache.kafka.tools.TopicCommand", *words)


def configs(broker: TidelogProcess | KafkaProcess, *words: str) -> str:
    return tool(broker, "kafka.admin.ConfigCommand", *words)


def test_kafka_topics_describes_and_grows_a_topic(tidelog: TidelogProcess, topic: str) -> None:
    topics(tidelog, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.bytes=123456")
    topics(tidelog, "--alter", "--topic", topic, "--partitions", "3")

    head, *partitions = topics(tidelog, "--describe", "--topic", topic).splitlines()

    facts = dict(re.findall(r"(\w+): (\S+)", head))
    assert facts["Topic"] == topic
    assert re.fullmatch(r"[\w-]{22}", facts["TopicId"])
    assert (facts["PartitionCount"], facts["ReplicationFactor"]) == ("3", "1")
    assert "retention.bytes=123456" in facts["Configs"].split(",")
    described = [re.findall(r"(Partition|Leader|Replicas|Isr): (\S+)", line) for line in partitions]
    assert described == [
        [("Partition", str(index)), ("Leader", "1"), ("Replicas", "1"), ("Isr", "1")] for index in range(3)
    ]


def test_kafka_topics_lists_what_differs_from_the_defaults(tidelog: TidelogProcess, topic: str) -> None:
    topics(tidelog, "--create", "--topic", topic, "--config", "retention.bytes=123456")
    said = topics(tidelog, "--describe", "--topics-with-overrides")
    assert f"Topic: {topic}\t" in said
    assert topics(tidelog, "--describe", "--unavailable-partitions").strip() == ""


def test_kafka_configs_changes_a_topic(tidelog: TidelogProcess, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    topics(tidelog, "--create", "--topic", topic, "--config", "retention.bytes=123456")

    added = "max.message.bytes=5000,cleanup.policy=[compact,delete]"
    said = configs(tidelog, "--alter", *entity, "--add-config", added, "--delete-config", "retention.bytes")
    assert said.strip() == f"Completed updating config for topic {topic}."

    said = configs(tidelog, "--describe", *entity)
    assert "max.message.bytes=5000 " in said
    assert "cleanup.policy=compact,delete " in said
    assert "retention.bytes" not in said
    everything = configs(tidelog, "--describe", "--all", *entity)
    assert re.search(
        r"retention\.ms=-1 sensitive=false synonyms=\{STATIC_BROKER_CONFIG:log\.retention\.ms=-1", everything
    )
    with pytest.raises(ProcessFailed, match="InvalidConfigurationException"):
        configs(tidelog, "--alter", *entity, "--add-config", "max.message.bytes=many")


def test_kafka_configs_describes_the_broker(tidelog: TidelogProcess) -> None:
    said = configs(tidelog, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert re.search(r"^ +log\.retention\.ms=-1 sensitive=false synonyms=\{STATIC_BROKER_CONFIG", said, re.MULTILINE)
    assert re.search(r"^ +num\.partitions=1 ", said, re.MULTILINE)


def test_a_topic_has_the_settings_it_has_in_kafka(tidelog: TidelogProcess, kafka: KafkaProcess, topic: str) -> None:
    ours, theirs = (described_settings(broker, topic) for broker in (tidelog, kafka))
    assert theirs.keys() - ours.keys() == OF_TIERED_STORAGE
    assert ours == {name: theirs[name] for name in ours}


def described_settings(broker: TidelogProcess | KafkaProcess, topic: str) -> dict[str, str]:
    """Each setting of a new topic and its value, as kafka-configs prints them."""
    topics(broker, "--create", "--topic", topic)
    said = configs(broker, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    return dict(re.findall(r"^ +([\w.]+)=(.*?) sensitive=false", said, re.MULTILINE))

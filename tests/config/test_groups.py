"""The settings of groups: Kafka's defaults reach the machines, and what contradicts itself is refused."""

from __future__ import annotations

import pytest

from tidelog.broker.group_settings import group_settings
from tidelog.broker.internal_topics import groups_topic
from tidelog.config import BrokerConfig, ConfigError
from tidelog.coordinator.group.settings import GroupSettings


def test_the_defaults_of_a_broker_are_those_of_its_groups() -> None:
    assert group_settings(BrokerConfig()) == GroupSettings()


def test_what_is_set_reaches_the_groups() -> None:
    config = BrokerConfig.from_properties(
        {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.retention.minutes": "2",
            "group.consumer.assignors": "range",
            "group.consumer.migration.policy": "disabled",
        }
    )
    found = group_settings(config)
    assert (found.initial_rebalance_delay_ms, found.offsets_retention_ms) == (0, 120_000)
    assert (found.consumer_assignors, found.consumer_migration_policy) == (("range",), "disabled")


def test_the_topic_is_compacted_and_takes_the_minimum_of_the_broker_unless_told_otherwise() -> None:
    topic = groups_topic(BrokerConfig())
    assert (topic.num_partitions, topic.replication_factor) == (50, 3)
    assert topic.configs == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }
    told = BrokerConfig.from_properties({"tidelog.offsets.topic.min.insync.replicas": "2"})
    assert groups_topic(told).configs["min.insync.replicas"] == "2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.session.timeout.ms", "5000"),
        ("group.max.session.timeout.ms", "5999"),
        ("offsets.topic.replication.factor", "0"),
        ("offsets.topic.replication.factor", "32768"),
        ("offsets.topic.compression.codec", "5"),
        ("group.consumer.assignors", "sticky"),
        ("group.consumer.migration.policy", "maybe"),
        ("offsets.retention.minutes", "0"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties({name: value})
    assert refused.value.name == name

"""The settings of transactions: Kafka's defaults reach the machines and the topic, and what cannot be is refused."""

from __future__ import annotations

import pytest

from tidelog.broker.internal_topics import transactions_topic
from tidelog.broker.transaction_settings import transaction_settings
from tidelog.config import BrokerConfig, ConfigError
from tidelog.coordinator.transaction.settings import TransactionSettings
from tidelog.coordinator.transaction.states import TransactionVersion


def test_the_defaults_of_a_broker_are_those_of_its_transactions() -> None:
    assert transaction_settings(BrokerConfig()) == TransactionSettings()


def test_what_is_set_reaches_the_transactions() -> None:
    config = BrokerConfig.from_properties(
        {
            "transaction.max.timeout.ms": "1000",
            "transactional.id.expiration.ms": "2000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "3000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "4000",
            "transaction.two.phase.commit.enable": "true",
            "tidelog.transaction.version": "1",
        }
    )
    assert transaction_settings(config) == TransactionSettings(
        max_timeout_ms=1_000,
        id_expiration_ms=2_000,
        expiry_check_ms=3_000,
        abort_check_ms=4_000,
        is_two_phase_enabled=True,
        version=TransactionVersion.ONE,
    )


def test_the_topic_is_compacted_uncompressed_and_never_led_by_who_missed_a_step() -> None:
    topic = transactions_topic(BrokerConfig())
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__transaction_state", 50, 3)
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_a_topic_of_fewer_replicas_than_the_minimum_can_be_written() -> None:
    told = BrokerConfig.from_properties({"transaction.state.log.replication.factor": "1"})
    assert transactions_topic(told).configs["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction.max.timeout.ms", "0"),
        ("transactional.id.expiration.ms", "0"),
        ("transaction.state.log.replication.factor", "0"),
        ("transaction.state.log.replication.factor", "32768"),
        ("transaction.state.log.num.partitions", "0"),
        ("transaction.state.log.min.isr", "0"),
        ("transaction.state.log.segment.bytes", "0"),
        ("transaction.two.phase.commit.enable", "perhaps"),
        ("tidelog.transaction.version", "3"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties({name: value})
    assert refused.value.name == name

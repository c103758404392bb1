"""Kafka's names, Kafka's defaults, and what is said about mistakes."""

from __future__ import annotations

import pytest

from tidelog.client import ClientConfig, ConsumerConfig, OffsetReset, ProducerConfig
from tidelog.config import ConfigError, UnknownSetting
from tidelog.model import Acks, IsolationLevel
from tidelog.records.compression import Codec
from tidelog.runtime import Address

WHERE = {"bootstrap.servers": "localhost:9092"}


def test_defaults_are_those_of_kafka_4_clients() -> None:
    producer = ProducerConfig.from_properties(WHERE)
    assert producer.acks is Acks.ALL
    assert producer.enable_idempotence
    assert (producer.linger_ms, producer.batch_size, producer.buffer_memory) == (5, 16384, 32 << 20)
    assert (producer.delivery_timeout_ms, producer.request_timeout_ms) == (120_000, 30_000)
    assert (producer.max_in_flight_requests_per_connection, producer.max_request_size) == (5, 1 << 20)
    assert producer.retries == 2**31 - 1
    consumer = ConsumerConfig.from_properties(WHERE)
    assert consumer.auto_offset_reset is OffsetReset.LATEST
    assert consumer.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert (consumer.fetch_min_bytes, consumer.fetch_max_wait_ms, consumer.max_poll_records) == (1, 500, 500)
    assert consumer.max_partition_fetch_bytes == 1 << 20
    assert consumer.metadata_max_age_ms == 300_000


def test_values_are_read_by_kafkas_names() -> None:
    properties = {**WHERE, "linger.ms": "50", "compression.type": "zstd", "client.id": "me"}
    config = ProducerConfig.from_properties(properties)
    assert (config.linger_ms, config.compression_type, config.client_id) == (50, Codec.ZSTD, "me")


def test_unknown_name_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean linger\.ms\?"):
        ProducerConfig.from_properties({**WHERE, "linger.msec": "5"})


def test_a_producer_setting_is_no_consumer_setting() -> None:
    with pytest.raises(UnknownSetting):
        ConsumerConfig.from_properties({**WHERE, "linger.ms": "5"})


@pytest.mark.parametrize(
    "text", ["", "localhost", ":9092", "localhost:0", "localhost:65536", "a:1,b", "h:\N{FULLWIDTH DIGIT NINE}"]
)
def test_bootstrap_servers_must_be_hosts_with_ports(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        ClientConfig.from_properties({"bootstrap.servers": text})


def test_bootstrap_servers_may_be_several_and_ipv6() -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": "a:1, [::1]:9092"})
    assert config.bootstrap_servers == (Address("a", 1), Address("::1", 9092))


@pytest.mark.parametrize(
    "conflict", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"max.in.flight.requests.per.connection": "6"}]
)
def test_idempotence_gives_way_quietly_unless_it_was_asked_for(conflict: dict[str, str]) -> None:
    assert not ProducerConfig.from_properties({**WHERE, **conflict}).enable_idempotence
    with pytest.raises(ConfigError, match=r"enable\.idempotence"):
        ProducerConfig.from_properties({**WHERE, **conflict, "enable.idempotence": "true"})


def test_delivery_timeout_must_leave_time_for_one_request() -> None:
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        ProducerConfig.from_properties({**WHERE, "delivery.timeout.ms": "30000"})


def test_the_message_of_a_bad_value_says_what_is_accepted() -> None:
    with pytest.raises(ConfigError, match="one of none, gzip, snappy, lz4, zstd"):
        ProducerConfig.from_properties({**WHERE, "compression.type": "rar"})


def test_transactions_ask_for_idempotence() -> None:
    config = ProducerConfig.from_properties({**WHERE, "transactional.id": "orders"})
    assert (config.transactional_id, config.enable_idempotence) == ("orders", True)
    assert (config.transaction_timeout_ms, config.is_two_phase, config.transaction_version_max) == (60_000, False, 2)
    for name, value in (("acks", "1"), ("enable.idempotence", "false"), ("retries", "0")):
        with pytest.raises(ConfigError, match="idempotence"):
            ProducerConfig.from_properties({**WHERE, "transactional.id": "orders", name: value})


def test_two_phases_need_a_transactional_id_and_the_newest_protocol() -> None:
    two_phase = {**WHERE, "transaction.two.phase.commit.enable": "true"}
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        ProducerConfig.from_properties(two_phase)
    with pytest.raises(ConfigError, match="two-phase commit"):
        ProducerConfig.from_properties({**two_phase, "transactional.id": "o", "tidelog.transaction.version.max": "1"})

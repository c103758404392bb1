"""The tables of settings say what is so: who reads what, what Kafka calls it, and what happens to a name we do not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.config.readers import readers
from tidelog.config import (
    BROKER_SETTING_NAMES,
    BROKER_SETTINGS,
    REFUSED,
    TOPIC_SETTINGS,
    WITHOUT_EFFECT,
    BrokerConfig,
    ConfigError,
    LogConfig,
    UnknownSetting,
    parse_properties,
    without_effect,
)
from tidelog.config.settings import Setting, settings_of
from tidelog.config.unheeded import RefusedSetting

KAFKAS_SETTINGS = Path(__file__).with_name("kafka_broker_settings.tsv")
READ_OF_THE_LOG_CONFIG = {row.synonym for row in TOPIC_SETTINGS.values()}

#: Kafka's default -> why ours is written otherwise.
OTHER_DEFAULTS = {
    "log.dirs": "null there means that log.dir holds, whose default is ours",
    "log.flush.interval.ms": "null there means that the scheduler's interval holds: never",
    "log.flush.scheduler.interval.ms": "flush.ms of a topic is looked after even where the broker's is not set",
    "log.retention.ms": "null there means that log.retention.hours holds, whose default is the same",
    "log.roll.jitter.ms": "null there means that log.roll.jitter.hours holds, whose default is the same",
    "log.roll.ms": "null there means that log.roll.hours holds, whose default is the same",
    "listener.security.protocol.map": "the same pairs in another order",
    "queued.max.request.bytes": "unbounded there; here a flood of half-sent requests meets a bound by default",
    "node.id": "required there; here one is generated",
    "group.consumer.assignors": "the same list without blanks",
}
# Kafka has these only as dynamic settings, which are not in its table.
DYNAMIC_ONLY = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
OF_THE_LAB = {"replication.truncation"}  # what Kafka no longer lets anybody choose
OF_METRICS = {"metrics.listeners"}  # Kafka's metrics leave by agents that brokers know nothing of
OF_KAFKA_3 = {  # Kafka 4 generates no broker ids, and has no ZooKeeper and no controller on a broker
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "leader.imbalance.per.broker.percentage",
    "reserved.broker.max.id",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
}


def fields_of_settings() -> Iterator[tuple[str, Setting]]:
    """Every field whose value somebody should read; a broker's setting with a topic-level one is read there."""
    yield from settings_of(LogConfig).items()
    for field, row in BROKER_SETTINGS.items():
        if row.name not in READ_OF_THE_LOG_CONFIG:
            yield field, row


def test_every_setting_is_read_where_the_table_says() -> None:
    found = readers()
    wrong = [
        f"{row.name}: {row.read_by} does not read {field}; it is read by {sorted(found.get(field, [])) or 'nobody'}"
        for field, row in fields_of_settings()
        if row.read_by is not None and row.read_by not in found.get(field, ())
    ]
    assert not wrong, "correct read_by, or say why not in unheeded:\n" + "\n".join(wrong)


def test_a_setting_that_is_not_acted_on_is_read_by_nobody() -> None:
    found = readers()
    read = [
        f"{row.name}: {field} is read by {sorted(found[field])}"
        for field, row in fields_of_settings()
        if row.unheeded is not None and found.get(field)
    ]
    assert not read, "these are acted on now; put read_by in the place of unheeded:\n" + "\n".join(read)


def kafkas_settings() -> dict[str, tuple[str, str]]:
    lines = [line.split("\t") for line in KAFKAS_SETTINGS.read_text().splitlines() if not line.startswith("#")]
    return {name: (kind, default) for name, kind, default in lines}


def test_every_setting_of_kafkas_is_known_one_way_or_another() -> None:
    assert sorted(set(kafkas_settings()) - BROKER_SETTING_NAMES) == []


def test_every_setting_is_kafkas_in_name_type_and_default_or_ours_in_name() -> None:
    theirs = kafkas_settings()
    for row in BROKER_SETTINGS.values():
        if row.name.startswith("tidelog.") or row.name in OF_KAFKA_3 | DYNAMIC_ONLY | OF_THE_LAB | OF_METRICS:
            continue
        kind, default = theirs[row.name]
        assert row.value_type.name == kind, row.name
        if row.name not in OTHER_DEFAULTS:
            assert row.default == ("" if default == "null" else default.strip("[]")), row.name


def test_no_name_is_in_two_lists() -> None:
    heeded = {name for row in BROKER_SETTINGS.values() for name in (row.name, *(alias.name for alias in row.aliases))}
    assert not heeded & set(WITHOUT_EFFECT)
    assert not heeded & set(REFUSED)
    assert not set(WITHOUT_EFFECT) & set(REFUSED)


def test_a_setting_that_is_not_acted_on_is_said_to_have_no_effect() -> None:
    unheeded = {row.name: row.unheeded for row in BROKER_SETTINGS.values() if row.unheeded is not None}
    assert without_effect(dict.fromkeys(unheeded, "1")) == unheeded
    assert without_effect({"group.share.max.groups": "1", "num.partitions": "3"}) == {
        "group.share.max.groups": "there are no share groups"
    }


def test_a_misspelt_name_of_a_list_is_refused_with_the_right_one() -> None:
    with pytest.raises(UnknownSetting) as refused:
        BrokerConfig.from_properties({"offsets.topic.replication.faktor": "1"})
    assert refused.value.did_you_mean == "offsets.topic.replication.factor"


def test_a_setting_that_would_protect_the_broker_stops_it_and_keeps_its_secret() -> None:
    with pytest.raises(RefusedSetting, match="open to everybody") as refused:
        BrokerConfig.from_properties({"ssl.keystore.password": "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_that_should_be_secure_is_not_opened_in_the_clear(protocol: str) -> None:
    with pytest.raises(ConfigError, match="not served yet"):
        BrokerConfig.from_properties({"listeners": f"{protocol}://:9092"})


STOCK_KRAFT_FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_file_kafka_ships_is_accepted_and_its_controller_listener_left_closed() -> None:
    config = BrokerConfig.from_properties(parse_properties(STOCK_KRAFT_FILE))
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.broker_id == 1

"""A broker's settings: Kafka's names and defaults, and refusals that say what would be right."""

from __future__ import annotations

import pytest

from tidelog.config import BROKER_SETTINGS, BrokerConfig, ConfigError, Listener, UnknownSetting, without_effect


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig.from_properties({})
    assert config == BrokerConfig()
    assert config.broker_id == -1
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.socket_request_max_bytes == 104_857_600
    assert config.log_segment_bytes == 1 << 30
    assert config.log_retention_ms == 7 * 24 * 3_600_000
    assert config.log_retention_bytes is None
    assert config.log_flush_interval_messages is None
    assert config.fetch_session_slots == 1000


def test_every_default_is_accepted_by_its_own_kind_and_written_back_unchanged() -> None:
    for row in BROKER_SETTINGS.values():
        assert row.kind.render(row.parse(row.default)) == row.default, row.name


def test_every_setting_says_what_it_means() -> None:
    for row in BROKER_SETTINGS.values():
        assert row.doc.endswith("."), row.name


def test_misspelt_name_is_refused_with_advice() -> None:
    with pytest.raises(UnknownSetting) as refused:
        BrokerConfig.from_properties({"log.segmnt.bytes": "1024"})
    assert refused.value.did_you_mean == "log.segment.bytes"
    assert str(refused.value) == "Unknown configuration 'log.segmnt.bytes' (did you mean log.segment.bytes?)"


def test_name_far_from_all_others_is_refused_without_advice() -> None:
    with pytest.raises(UnknownSetting) as refused:
        BrokerConfig.from_properties({"colour": "blue"})
    assert refused.value.did_you_mean is None
    assert str(refused.value) == "Unknown configuration 'colour'"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.partitions", "0"),
        ("num.partitions", "two"),
        ("num.partitions", "1_000"),
        ("num.partitions", "\u0663"),
        ("num.partitions", ""),
        ("num.partitions", "2147483648"),
        ("log.retention.ms", "-2"),
        ("log.flush.interval.messages", "9223372036854775808"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleaner.min.cleanable.ratio", "nan"),
        ("auto.create.topics.enable", "yes"),
        ("compression.type", "brotli"),
        ("log.cleanup.policy", "delete,delete"),
        ("log.cleanup.policy", "shred"),
        ("log.dirs", "/a,,/b"),
        ("log.dirs", "/a,/a"),
        ("log.message.timestamp.type", "Never"),
    ],
)
def test_malformed_value_is_refused_naming_setting_and_value(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties({name: value})
    assert (refused.value.name, refused.value.value) == (name, value)
    assert name in str(refused.value)
    assert refused.value.accepted in str(refused.value)


def test_message_says_what_is_accepted() -> None:
    with pytest.raises(
        ConfigError,
        match=r"Invalid value '0' for configuration num.partitions: accepted is a whole number of at least 1",
    ):
        BrokerConfig.from_properties({"num.partitions": "0"})


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.minutes": "3", "log.retention.hours": "2"}, 180_000),
        ({"log.retention.ms": "5", "log.retention.minutes": "3", "log.retention.hours": "2"}, 5),
        ({"log.retention.hours": "-1"}, None),
        ({"log.retention.ms": "-1", "log.retention.hours": "2"}, None),
        ({"log.retention.minutes": "-1"}, None),
    ],
)
def test_finer_unit_of_retention_wins(given: dict[str, str], retention_ms: int | None) -> None:
    assert BrokerConfig.from_properties(given).log_retention_ms == retention_ms


def test_roll_hours_are_read_where_no_roll_ms_is_given() -> None:
    assert BrokerConfig.from_properties({"log.roll.hours": "1"}).log_roll_ms == 3_600_000
    assert BrokerConfig.from_properties({"log.roll.hours": "1", "log.roll.ms": "7"}).log_roll_ms == 7


def test_older_names_are_understood() -> None:
    config = BrokerConfig.from_properties({"broker.id": "4", "log.dir": "/data"})
    assert (config.broker_id, config.log_dirs) == (4, ("/data",))
    assert BrokerConfig.from_properties({"broker.id": "4", "node.id": "5"}).broker_id == 5


def test_blanks_around_a_value_are_ignored() -> None:
    config = BrokerConfig.from_properties({"num.partitions": " 3 ", "log.dirs": "/a , /b"})
    assert (config.num_partitions, config.log_dirs) == (3, ("/a", "/b"))


def test_stock_settings_that_mean_nothing_here_are_accepted_and_reported() -> None:
    given = {"num.io.threads": "8", "num.partitions": "2"}
    assert BrokerConfig.from_properties(given).num_partitions == 2
    assert list(without_effect(given)) == ["num.io.threads"]

"""A topic's settings on top of its broker's."""

from __future__ import annotations

import pytest

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigError,
    ConfigLayers,
    ConfigSource,
    LogConfig,
    UnknownSetting,
    topic_settings,
)
from tidelog.model import TimestampType


def test_defaults_are_kafkas() -> None:
    config = LogConfig.from_properties({}, BrokerConfig())
    assert config == LogConfig()
    assert (config.is_deleted, config.is_compacted) == (True, False)
    assert config.retention_ms == 604_800_000
    assert (config.retention_bytes, config.flush_messages, config.flush_ms, config.max_compaction_lag_ms) == (None,) * 4
    assert config.max_message_bytes == 1_048_588
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert config.message_timestamp_before_max_ms == 2**63 - 1


def test_topic_kinds_accept_exactly_what_their_broker_synonyms_accept() -> None:
    by_name = {row.name: row for row in BROKER_SETTINGS.values()}
    for row in TOPIC_SETTINGS.values():
        if row.synonym is None:
            assert row.name.endswith(".replication.throttled.replicas"), (
                "the only ones that no broker setting stands behind"
            )
            continue
        assert row.kind.accepted == by_name[row.synonym].kind.accepted, row.name


def test_topic_falls_back_to_the_broker() -> None:
    broker = BrokerConfig.from_properties(
        {"log.segment.bytes": "1000", "log.retention.hours": "1", "log.cleanup.policy": "compact,delete"}
    )
    config = LogConfig.from_properties({"segment.bytes": "2000"}, broker)
    assert (config.segment_bytes, config.retention_ms) == (2000, 3_600_000)
    assert (config.is_compacted, config.is_deleted) == (True, True)


def test_minus_one_keeps_records_for_ever() -> None:
    config = LogConfig.from_properties(
        {"retention.ms": "-1", "retention.bytes": "-1"}, BrokerConfig(log_retention_bytes=5)
    )
    assert (config.retention_ms, config.retention_bytes) == (None, None)


def test_broker_name_is_no_topic_setting() -> None:
    with pytest.raises(UnknownSetting) as refused:
        LogConfig.from_properties({"log.segment.bytes": "2000"}, BrokerConfig())
    assert refused.value.did_you_mean == "segment.bytes"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-2"),
        ("cleanup.policy", ""),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1e6"),
        ("flush.messages", "0"),
    ],
)
def test_malformed_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LogConfig.from_properties({name: value}, BrokerConfig())
    assert (refused.value.name, refused.value.value) == (name, value)


def test_longest_compaction_lag_cannot_be_below_the_shortest() -> None:
    with pytest.raises(ConfigError, match=r"max.compaction.lag.ms"):
        LogConfig.from_properties({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, BrokerConfig())


def test_effective_settings_say_where_each_value_comes_from() -> None:
    broker = BrokerConfig.from_properties({"log.segment.bytes": "1000", "log.flush.interval.messages": "1"})
    settings = {row.name: row for row in topic_settings({"retention.ms": "-1"}, ConfigLayers(static=broker))}
    assert list(settings) == sorted(TOPIC_SETTINGS)
    assert (settings["retention.ms"].value, settings["retention.ms"].source) == ("-1", ConfigSource.TOPIC)
    assert (settings["segment.bytes"].value, settings["segment.bytes"].source) == ("1000", ConfigSource.STATIC_BROKER)
    assert (settings["flush.ms"].value, settings["flush.ms"].source) == (str(2**63 - 1), ConfigSource.DEFAULT)


def test_throttled_replicas_are_pairs_or_all_or_none() -> None:
    for text, value in (("", ()), ("*", ("*",)), ("0:1, 1:2", ("0:1", "1:2"))):
        config = LogConfig.from_properties({"leader.replication.throttled.replicas": text}, BrokerConfig())
        assert config.leader_throttled_replicas == value
    for text in ("1", "1:2:3", "*,0:1", "a:b", "0:1,"):
        with pytest.raises(ConfigError):
            LogConfig.from_properties({"follower.replication.throttled.replicas": text}, BrokerConfig())

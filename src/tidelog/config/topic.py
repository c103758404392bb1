"""The settings of a topic's logs: each topic-level name falls back to a broker setting, its synonym, where it has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.config.broker import BROKER_SETTINGS, COMPRESSION_TYPES, BrokerConfig
from tidelog.config.errors import ConfigError
from tidelog.config.kinds import (
    BOOLEAN,
    LONG_MAX,
    TIMESTAMP_TYPE,
    Kind,
    ValueType,
    integer,
    list_of,
    long,
    one_of,
    optional_integer,
    ratio,
)
from tidelog.config.settings import Setting, check_names, declared, setting, settings_of
from tidelog.model import TimestampType

T = TypeVar("T")

_BROKER_ROWS: Final = {row.name: row for row in BROKER_SETTINGS.values()}
_BROKER_FIELDS: Final = {row.name: field for field, row in BROKER_SETTINGS.items()}


def _topic_level(name: str, kind: Kind[T], synonym: str) -> T:
    """Declare a field settable per topic; default and meaning are those of the broker setting."""
    broker = _BROKER_ROWS[synonym]
    row = Setting(
        name=name,
        kind=kind,  # type: ignore[arg-type]  # a row forgets its type; the field keeps it
        default=broker.default,
        doc=broker.doc,
        read_by=broker.read_by,
        unheeded=broker.unheeded,
        dynamic=True,
        synonym=synonym,
    )
    return declared(row, kind.parse(broker.default))


_THROTTLED: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


def _parse_throttled(text: str) -> tuple[str, ...]:
    chosen = tuple(word.strip() for word in text.split(",")) if text else ()
    if chosen != ("*",) and not all(_THROTTLED.fullmatch(word) for word in chosen):
        raise ValueError(text)
    return chosen


THROTTLED_REPLICAS: Final[Kind[tuple[str, ...]]] = Kind(
    value_type=ValueType.LIST,
    accepted="empty, *, or a comma-separated list of partition:broker",
    parse=_parse_throttled,
    render=",".join,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How the logs of one topic behave. `LogConfig()` holds Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = _topic_level("cleanup.policy", list_of("delete", "compact"), "log.cleanup.policy")
    compression_type: str = _topic_level("compression.type", one_of(*COMPRESSION_TYPES), "compression.type")
    compression_gzip_level: int = _topic_level("compression.gzip.level", integer(-1, 9), "compression.gzip.level")
    compression_lz4_level: int = _topic_level("compression.lz4.level", integer(1, 17), "compression.lz4.level")
    compression_zstd_level: int = _topic_level("compression.zstd.level", integer(-131072, 22), "compression.zstd.level")
    delete_retention_ms: int = _topic_level("delete.retention.ms", long(0), "log.cleaner.delete.retention.ms")
    file_delete_delay_ms: int = _topic_level("file.delete.delay.ms", long(0), "log.segment.delete.delay.ms")
    flush_messages: int | None = _topic_level(
        "flush.messages", optional_integer(1, none=LONG_MAX), "log.flush.interval.messages"
    )
    flush_ms: int | None = _topic_level("flush.ms", optional_integer(0, none=LONG_MAX), "log.flush.interval.ms")
    index_interval_bytes: int = _topic_level("index.interval.bytes", integer(0), "log.index.interval.bytes")
    follower_throttled_replicas: tuple[str, ...] = setting(
        "follower.replication.throttled.replicas",
        THROTTLED_REPLICAS,
        "",
        "Replicas that follower.replication.throttled.rate holds back until they are in sync.",
        read_by="broker.replication_quota",
        dynamic=True,
    )
    max_compaction_lag_ms: int | None = _topic_level(
        "max.compaction.lag.ms", optional_integer(1, none=LONG_MAX), "log.cleaner.max.compaction.lag.ms"
    )
    leader_throttled_replicas: tuple[str, ...] = setting(
        "leader.replication.throttled.replicas",
        THROTTLED_REPLICAS,
        "",
        "Replicas whose leaders give them no more than leader.replication.throttled.rate until they are in sync.",
        read_by="broker.replication_quota",
        dynamic=True,
    )
    max_message_bytes: int = _topic_level("max.message.bytes", integer(0), "message.max.bytes")
    message_timestamp_after_max_ms: int = _topic_level(
        "message.timestamp.after.max.ms", long(0), "log.message.timestamp.after.max.ms"
    )
    message_timestamp_before_max_ms: int = _topic_level(
        "message.timestamp.before.max.ms", long(0), "log.message.timestamp.before.max.ms"
    )
    timestamp_type: TimestampType = _topic_level("message.timestamp.type", TIMESTAMP_TYPE, "log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _topic_level(
        "min.cleanable.dirty.ratio", ratio(0.0, 1.0), "log.cleaner.min.cleanable.ratio"
    )
    min_compaction_lag_ms: int = _topic_level("min.compaction.lag.ms", long(0), "log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _topic_level("min.insync.replicas", integer(1), "min.insync.replicas")
    preallocate: bool = _topic_level("preallocate", BOOLEAN, "log.preallocate")
    retention_bytes: int | None = _topic_level("retention.bytes", optional_integer(0, none=-1), "log.retention.bytes")
    retention_ms: int | None = _topic_level("retention.ms", optional_integer(0, none=-1), "log.retention.ms")
    segment_bytes: int = _topic_level("segment.bytes", integer(14), "log.segment.bytes")
    segment_index_bytes: int = _topic_level("segment.index.bytes", integer(4), "log.index.size.max.bytes")
    segment_jitter_ms: int = _topic_level("segment.jitter.ms", long(0), "log.roll.jitter.ms")
    segment_ms: int = _topic_level("segment.ms", long(1), "log.roll.ms")
    unclean_leader_election_enable: bool = _topic_level(
        "unclean.leader.election.enable", BOOLEAN, "unclean.leader.election.enable"
    )
    # Not settable per topic; carried here so that a log needs no other settings than these.
    producer_id_expiration_ms: int = 86_400_000
    produce_validation: str = "header"

    @classmethod
    def from_properties(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> LogConfig:
        """The broker's settings with a topic's own on top; raises UnknownSetting or ConfigError."""
        check_names(overrides, TOPIC_SETTINGS.__contains__, sorted(TOPIC_SETTINGS))
        values: dict[str, object] = {
            "producer_id_expiration_ms": broker.producer_id_expiration_ms,
            "produce_validation": broker.produce_validation,
        }
        for field, row in _FIELDS.items():
            values[field] = row.parse(overrides[row.name]) if row.name in overrides else _broker_value(row, broker)
        config = cls(**values)  # type: ignore[arg-type]  # `_topic_level` ties each row's kind to its field's type
        _check_compaction_lags(config)
        return config

    @property
    def is_compacted(self) -> bool:
        """Whether only the last record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy


_FIELDS: Final = settings_of(LogConfig)
TOPIC_SETTINGS: Final[Mapping[str, Setting]] = {row.name: row for row in _FIELDS.values()}


def _broker_value(row: Setting, broker: BrokerConfig) -> object:
    """What a topic that does not say has: its broker's value, or the default where there is no broker setting."""
    if row.synonym is None:
        return row.parse(row.default)
    return getattr(broker, _BROKER_FIELDS[row.synonym])


def _check_compaction_lags(config: LogConfig) -> None:
    longest = config.max_compaction_lag_ms
    if longest is not None and config.min_compaction_lag_ms > longest:
        raise ConfigError(
            "max.compaction.lag.ms",
            str(longest),
            f"at least min.compaction.lag.ms, which is {config.min_compaction_lag_ms}",
        )

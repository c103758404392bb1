"""The settings of a broker: the table and, in one, the frozen value the rooms read. Kafka's names, types and defaults.

A setting is here because a module acts on it (`read_by`), or will when the broker can do what it is about (`unheeded`
says why it does not yet). The other names that stock configuration files carry are listed in `unheeded.py`, so that such
a file starts a broker and the shell can say what it did not heed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config.errors import ConfigError
from tidelog.config.groups import check_groups
from tidelog.config.kinds import (
    BOOLEAN,
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    PATHS,
    TIMESTAMP_TYPE,
    integer,
    list_of,
    long,
    one_of,
    optional_integer,
    optional_text,
    ratio,
)
from tidelog.config.listeners import (
    HTTP_LISTENERS,
    LISTENERS,
    PLAINTEXT,
    PROTOCOL_MAP,
    Listener,
    without_controller_listeners,
)
from tidelog.config.replication import HIGH_WATERMARK, LEADER_EPOCH
from tidelog.config.settings import Alias, Setting, check_names, setting, settings_of
from tidelog.config.transactions import TransactionConfig
from tidelog.config.unheeded import NO_SECURITY, REFUSED, WITHOUT_EFFECT, check_protection
from tidelog.model import TimestampType

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
GENERATED_BROKER_ID: Final = -1  # "ask the registry for one"; replaced before any room reads it

_WRITTEN_TOGETHER: Final = "written with the high watermarks, every replica.high.watermark.checkpoint.interval.ms"

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(TransactionConfig):
    """All settings of one broker. `BrokerConfig()` holds Kafka's defaults."""

    # fmt: off
    # Who and where.
    broker_id: int = setting(
        "node.id", integer(-1), "-1",
        "The broker's number in the cluster; -1 has one above reserved.broker.max.id generated at the first start.",
        read_by="broker.broker", aliases=(Alias(name="broker.id", kind=integer(-1)),)
    )
    reserved_broker_id_max: int = setting(
        "reserved.broker.max.id", integer(0), "1000",
        "The largest number an operator may choose; generated ones lie above.", read_by="controller.membership"
    )
    broker_rack: str | None = setting(
        "broker.rack", optional_text("a name"), "",
        "The failure domain of this broker; replicas are spread over racks.", read_by="controller.membership"
    )
    log_dirs: tuple[str, ...] = setting(
        "log.dirs", PATHS, "/tmp/kafka-logs", "The directories that hold partitions.", read_by="broker.log_directories",
        aliases=(Alias(name="log.dir", kind=PATHS),)
    )
    registry_path: str | None = setting(
        "tidelog.registry.path", optional_text("a file name"), "",
        "The SQLite file of the registry, one for brokers that belong together; empty: registry.sqlite in or beside the first log directory.",
        read_by="cli.registry"
    )
    listeners: tuple[Listener, ...] = setting(
        "listeners", LISTENERS, "PLAINTEXT://:9092", "The addresses to bind.", read_by="broker.broker"
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        "advertised.listeners", LISTENERS, "", "The addresses clients are told; empty takes those of listeners.",
        read_by="broker.inter_broker"
    )
    reserve_bytes: int = setting(
        "tidelog.reserve.bytes", integer(0), "8388608",
        "Room that each log directory keeps for what must be written when its disk is full, a sixteenth of a small disk at most; 0 keeps none.",
        read_by="cli.reserve"
    )
    faults_enable: bool = setting(
        "tidelog.faults.enable", BOOLEAN, "false",
        "For tests only: let anybody who reaches the broker make it fail on purpose (`tidelog fault`, `tidelog.testing`).",
        read_by="broker.broker"
    )
    metrics_listeners: tuple[Listener, ...] = setting(
        "metrics.listeners", HTTP_LISTENERS, "",
        "Where Prometheus finds the metrics of this broker, as http://host:port; empty shows them nowhere.",
        read_by="broker.metrics.page"
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = setting(
        "listener.security.protocol.map", PROTOCOL_MAP,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Which security protocol each listener name speaks.", read_by="controller.membership"
    )
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name", optional_text("the name of a listener"), "",
        "The listener brokers use among themselves, and the only one that serves what brokers alone may ask; empty binds one more, on a free "
        "port of the first listener's host, that clients are never told of.", read_by="broker.inter_broker"
    )

    # Connections and requests.
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes", integer(1), "104857600",
        "Largest request; a connection that sends more is closed.", read_by="broker.broker"
    )
    control_request_max_bytes: int = setting(
        "tidelog.control.request.max.bytes", integer(1024), "2097152", "Largest request of any API but Produce.", read_by="broker.broker"
    )
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes", integer(-1), "102400", "SO_SNDBUF of a connection; -1 leaves it to the system.",
        unheeded="the system sizes the buffers of a connection"
    )
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes", integer(-1), "102400", "SO_RCVBUF of a connection; -1 leaves it to the system.",
        unheeded="the system sizes the buffers of a connection"
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size", integer(1), "50", "Connections the system may hold that are not accepted yet.",
        unheeded="1024 connections may wait to be accepted"
    )
    queued_requests_max: int = setting(
        "queued.max.requests", integer(1), "500", "Queued requests at which a connection with one in work is not read.", read_by="broker.broker"
    )
    queued_request_max_bytes: int | None = setting(
        "queued.max.request.bytes", optional_integer(1, none=-1), "134217728",
        "Bytes of requests in work at which connections are no longer read; -1 sets no bound.", read_by="broker.broker"
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", long(1), "600000", "A connection without requests for so long is closed.", read_by="broker.broker"
    )
    connections_max: int = setting(
        "max.connections", integer(0), str(INT_MAX), "Most connections at a time; one more is closed.", read_by="broker.broker"
    )
    connections_max_per_ip: int = setting(
        "max.connections.per.ip", integer(0), str(INT_MAX), "Most connections from one address; one more is closed.", read_by="broker.broker"
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms", integer(1), "30000", "How long a broker waits for the answer of another.",
        read_by="broker.peers"
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", integer(1024), "57671680", "Most bytes of records in one fetch response.", read_by="broker.handlers.fetch"
    )
    fetch_session_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", integer(0), "1000", "Most fetch sessions kept.", read_by="broker.assembly"
    )

    # Topics.
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", BOOLEAN, "true", "Whether asking for an unknown topic creates it.",
        read_by="broker.handlers.metadata"
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", BOOLEAN, "true", "Whether topics can be deleted.", read_by="controller.making"
    )
    num_partitions: int = setting(
        "num.partitions", integer(1), "1", "Partitions of a topic that does not say.", read_by="controller.topics"
    )
    default_replication_factor: int = setting(
        "default.replication.factor", integer(1), "1", "Replicas of a topic that does not say.", read_by="controller.topics"
    )
    partitions_per_topic_max: int = setting(
        "tidelog.topic.partitions.max", integer(1), "10000",
        "Most partitions of one topic; more is a policy violation.", read_by="controller.making", dynamic=True
    )
    partitions_per_request_max: int = setting(
        "tidelog.request.partitions.max", integer(1), "10000",
        "Most partitions one CreateTopics may create; more is a policy violation.", read_by="controller.topics", dynamic=True
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas", integer(1), "1", "Least ISR size that accepts acks=all.", read_by="partition.replica_state",
        dynamic=True
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", BOOLEAN, "false",
        "Whether a replica outside the ISR may lead, losing records.", read_by="controller.leading", dynamic=True
    )
    compression_type: str = setting(
        "compression.type", one_of(*COMPRESSION_TYPES), "producer",
        "The codec batches are stored with; producer keeps the sender's.", read_by="partition.rules", dynamic=True
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level", integer(-1, 9), "-1", "gzip level; -1 is gzip's own default.", read_by="partition.rules",
        dynamic=True
    )
    compression_lz4_level: int = setting(
        "compression.lz4.level", integer(1, 17), "9", "lz4 level.", read_by="partition.rules", dynamic=True
    )
    compression_zstd_level: int = setting(
        "compression.zstd.level", integer(-131072, 22), "3", "zstd level.", read_by="partition.rules", dynamic=True
    )
    message_max_bytes: int = setting(
        "message.max.bytes", integer(0), "1048588", "Largest record batch, as compressed.", read_by="partition.rules",
        dynamic=True
    )
    produce_validation: str = setting(
        "tidelog.produce.validation", one_of("header", "full"), "header", "Whether every produced record is checked.", read_by="partition.rules"
    )
    log_message_timestamp_type: TimestampType = setting(
        "log.message.timestamp.type", TIMESTAMP_TYPE, "CreateTime",
        "Who sets timestamps: the producer, or the broker at append.", read_by="partition.rules", dynamic=True
    )
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms", long(0), str(LONG_MAX),
        "How far behind the broker's clock a timestamp may be.", read_by="partition.rules", dynamic=True
    )
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms", long(0), "3600000",
        "How far ahead of the broker's clock a timestamp may be.", read_by="partition.rules", dynamic=True
    )

    # Segments, retention, flushing.
    log_segment_bytes: int = setting(
        "log.segment.bytes", integer(14), "1073741824", "Largest size of one segment file.", read_by="storage.log_appending",
        dynamic=True
    )
    log_roll_ms: int = setting(
        "log.roll.ms", long(1), "604800000", "Age at which a segment is rolled even if it is not full.",
        read_by="storage.retention", dynamic=True, aliases=(Alias(name="log.roll.hours", kind=integer(1), unit_ms=HOUR_MS),)
    )
    log_roll_jitter_ms: int = setting(
        "log.roll.jitter.ms", long(0), "0",
        "Most that is randomly taken off the roll age, so that not all roll at once.", read_by="storage.retention", dynamic=True,
        aliases=(Alias(name="log.roll.jitter.hours", kind=integer(0), unit_ms=HOUR_MS),)
    )
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes", integer(4), "10485760", "Largest size of an offset or time index.",
        read_by="storage.log_appending", dynamic=True
    )
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes", integer(0), "4096", "Bytes of log between two index entries.", read_by="storage.segment_list",
        dynamic=True
    )
    log_retention_ms: int | None = setting(
        "log.retention.ms", optional_integer(0, none=-1), "604800000",
        "Age at which a segment is deleted; -1 keeps all.", read_by="storage.retention", dynamic=True,
        aliases=(
            Alias(name="log.retention.minutes", kind=optional_integer(0, none=-1, high=INT_MAX), unit_ms=MINUTE_MS),
            Alias(name="log.retention.hours", kind=optional_integer(0, none=-1, high=INT_MAX), unit_ms=HOUR_MS),
        )
    )
    log_retention_bytes: int | None = setting(
        "log.retention.bytes", optional_integer(0, none=-1), "-1",
        "Size of a partition at which its oldest segments are deleted; -1 keeps all.", read_by="storage.retention", dynamic=True
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", long(1), "300000", "How often retention is looked after.", read_by="broker.housekeeping"
    )
    log_segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms", long(0), "60000",
        "How long a deleted segment's files stay for readers that hold them.", read_by="storage.segment_list", dynamic=True
    )
    log_preallocate: bool = setting(
        "log.preallocate", BOOLEAN, "false", "Whether a new segment's space is claimed at once.", unheeded="segments grow as they are written",
        dynamic=True
    )
    log_flush_interval_messages: int | None = setting(
        "log.flush.interval.messages", optional_integer(1, none=LONG_MAX), str(LONG_MAX),
        "Records after which a partition is flushed, and only then acknowledged; the largest long means never.",
        read_by="storage.log", dynamic=True
    )
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms", optional_integer(0, none=LONG_MAX), str(LONG_MAX),
        "Time after which unflushed records are flushed; the largest long leaves it to the system.", read_by="storage.log_state",
        dynamic=True
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms", long(1), "1000", "How often flush.ms is looked after.", read_by="broker.housekeeping"
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", integer(1), "60000", "How often recovery points are checkpointed.",
        unheeded=_WRITTEN_TOGETHER
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms", integer(1), "60000",
        "How often log start offsets are checkpointed.", unheeded=_WRITTEN_TOGETHER
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", integer(1), "86400000",
        "A producer id without new records for so long is forgotten.", read_by="storage.log", dynamic=True
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms", integer(1), "600000", "How often producer ids are expired.",
        read_by="broker.housekeeping"
    )

    # Compaction.
    log_cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy", list_of("delete", "compact"), "delete",
        "delete drops old segments, compact keeps the last record of each key.", read_by="storage.retention", dynamic=True
    )
    log_cleaner_enable: bool = setting(
        "log.cleaner.enable", BOOLEAN, "true", "Whether compaction runs.", read_by="broker.log_cleaner"
    )
    log_cleaner_dedupe_buffer_bytes: int = setting(
        "log.cleaner.dedupe.buffer.size", long(1024 * 1024), "134217728",
        "Memory for the keys of one compaction pass.", read_by="broker.log_cleaner", dynamic=True
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second", ratio(1.0, DOUBLE_MAX), "1.7976931348623157E308",
        "Pace of compaction.", unheeded="compaction runs in a process of low priority, at its own pace", dynamic=True
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms", long(0), "15000", "Pause when there is nothing to compact.", read_by="broker.log_cleaner",
        dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio", ratio(0.0, 1.0), "0.5",
        "Share of a log that must be uncompacted to be worth a pass.", read_by="storage.compaction_plan", dynamic=True
    )
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms", long(0), "86400000", "How long tombstones and markers outlive compaction.",
        read_by="storage.compaction_plan", dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms", long(0), "0", "Records younger than this are not compacted.",
        read_by="storage.compaction_plan", dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int | None = setting(
        "log.cleaner.max.compaction.lag.ms", optional_integer(1, none=LONG_MAX), str(LONG_MAX),
        "Records older than this ask for compaction.", read_by="storage.compaction_plan", dynamic=True
    )
    # fmt: on

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Read a broker's settings by their Kafka names; raises UnknownSetting or ConfigError."""
        check_names(properties, BROKER_SETTING_NAMES.__contains__, sorted(BROKER_SETTING_NAMES))
        check_protection(properties)
        given = without_controller_listeners(properties)
        values = {field: row.read(given) for field, row in BROKER_SETTINGS.items()}
        config = cls(**values)  # type: ignore[arg-type]  # `setting` ties each row's kind to its field's type
        _check_listeners(config)
        check_groups(config)
        if config.truncation == HIGH_WATERMARK and not config.lab_enable:
            raise ConfigError(
                "replication.truncation",
                HIGH_WATERMARK,
                "leader-epoch, unless tidelog.lab.enable=true: it loses records",
            )
        return config

    def advertised(self, bound: Iterable[Listener]) -> tuple[Listener, ...]:
        """What clients are told of the bound listeners; an advertised port 0 stands for the one that was picked."""
        named = {listener.name: listener for listener in self.advertised_listeners}
        told = ((named.get(listener.name, listener), listener.port) for listener in bound)
        return tuple(Listener(listener.name, listener.host, listener.port or port) for listener, port in told)

    @property
    def truncation_in_force(self) -> str:
        """How followers cut their logs: by leader epoch, unless the lab is open and says otherwise."""
        return self.truncation if self.lab_enable else LEADER_EPOCH

    def security_protocol(self, listener_name: str) -> str:
        """What the listener speaks."""
        return dict(self.listener_security_protocol_map)[listener_name]


BROKER_SETTINGS: Final[Mapping[str, Setting]] = settings_of(BrokerConfig)
_FIELD_OF: Final = {
    name: field for field, row in BROKER_SETTINGS.items() for name in (row.name, *(alias.name for alias in row.aliases))
}
BROKER_SETTING_NAMES: Final = frozenset(_FIELD_OF) | frozenset(WITHOUT_EFFECT) | frozenset(REFUSED)


def without_effect(properties: Mapping[str, str]) -> dict[str, str]:
    """The given names that Kafka heeds and we do not, each with the reason."""
    reasons = {name: _unheeded(name) for name in properties}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _unheeded(name: str) -> str | None:
    field = _FIELD_OF.get(name)
    return WITHOUT_EFFECT.get(name) if field is None else BROKER_SETTINGS[field].unheeded


def _check_listeners(config: BrokerConfig) -> None:
    bound = {listener.name for listener in config.listeners}
    if not bound:
        raise ConfigError("listeners", "", "at least one NAME://host:port")
    mapped = dict(config.listener_security_protocol_map)
    for listener in config.listeners:
        if listener.name not in mapped:
            raise ConfigError(
                "listeners", str(listener), "a name of listener.security.protocol.map: " + ", ".join(mapped)
            )
        if mapped[listener.name] != PLAINTEXT:
            raise ConfigError("listeners", str(listener), f"a listener that speaks {PLAINTEXT}: {NO_SECURITY}")
    for listener in config.advertised_listeners:
        if listener.name not in bound:
            raise ConfigError("advertised.listeners", str(listener), "a name of listeners: " + ", ".join(sorted(bound)))
        if listener.is_wildcard:
            raise ConfigError("advertised.listeners", str(listener), "a host that clients can reach, not a wildcard")
    name = config.inter_broker_listener_name
    if name is not None and name not in bound:
        raise ConfigError("inter.broker.listener.name", name, "a name of listeners: " + ", ".join(sorted(bound)))

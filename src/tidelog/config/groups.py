"""The settings of consumer groups and of the topic that remembers them. Kafka's names, types and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.config.errors import ConfigError
from tidelog.config.kinds import INT_MAX, integer, list_of, long, one_of, optional_integer, short
from tidelog.config.replication import ReplicationConfig
from tidelog.config.settings import setting

_READER: Final = "broker.group_settings"
_TOPIC: Final = "broker.internal_topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig(ReplicationConfig):
    """What a broker needs to know to look after consumer groups."""

    # fmt: off
    # Classic groups.
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", integer(0), "6000", "Shortest session a member of a classic group may ask for.", read_by=_READER
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms", integer(0), "1800000", "Longest session a member of a classic group may ask for.", read_by=_READER
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms", integer(0), "3000",
        "How long an empty classic group waits for more members before its first rebalance.", read_by=_READER
    )
    group_max_size: int = setting(
        "group.max.size", integer(1), str(INT_MAX), "Most members of a classic group.", read_by=_READER
    )

    # Consumer groups (KIP-848).
    group_consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms", integer(1), "45000", "A member that is silent for so long leaves its consumer group.",
        read_by=_READER
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", integer(1), "5000", "How often the members of consumer groups are told to say that they live.",
        read_by=_READER
    )
    group_consumer_max_size: int = setting(
        "group.consumer.max.size", integer(1), str(INT_MAX), "Most members of a consumer group.", read_by=_READER
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors", list_of("uniform", "range"), "uniform,range",
        "Who can share partitions among the members of consumer groups; the first does unless a member asks for another.", read_by=_READER
    )
    group_consumer_migration_policy: str = setting(
        "group.consumer.migration.policy", one_of("bidirectional", "upgrade", "downgrade", "disabled"), "bidirectional",
        "Whether a group may change between the classic and the consumer protocol while it has members.", read_by=_READER
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms", integer(10_000), "600000",
        "How often the topics that match a subscribed regular expression are looked up again.", read_by=_READER
    )

    # Committed offsets.
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", integer(0), "4096", "Longest metadata of a committed offset.", read_by=_READER
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", integer(1), "5000", "How long an answer waits for its records to be committed.",
        read_by="broker.group_coordination"
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes", integer(1), "10080", "How long offsets outlive the last member of their group.", read_by=_READER
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", long(1), "600000", "How often expired offsets are looked for.", read_by=_READER
    )

    # The topic.
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", integer(1), "50", "Partitions of __consumer_offsets; they must not change after it was created.",
        read_by=_TOPIC
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor", short(1), "3",
        "Replicas of __consumer_offsets. It is created when so many brokers live, and no group is served before.", read_by=_TOPIC
    )
    offsets_topic_min_insync_replicas: int | None = setting(
        "tidelog.offsets.topic.min.insync.replicas", optional_integer(1, none=-1, high=INT_MAX), "-1",
        "How many replicas must hold an offset before its commit is answered; -1 takes min.insync.replicas.", read_by=_TOPIC
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", integer(1), "104857600", "Segment size of __consumer_offsets, small, so that compaction has work early.",
        read_by=_TOPIC
    )
    offsets_topic_compression_codec: int = setting(
        "offsets.topic.compression.codec", integer(0, 4), "0",
        "Compression of what is written to __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", read_by="broker.group_coordination"
    )
    # fmt: on


def check_groups(config: GroupConfig) -> None:
    """Raise ConfigError where settings of groups contradict each other."""
    if config.group_consumer_session_timeout_ms <= config.group_consumer_heartbeat_interval_ms:
        raise ConfigError(
            "group.consumer.session.timeout.ms",
            str(config.group_consumer_session_timeout_ms),
            f"more than group.consumer.heartbeat.interval.ms, {config.group_consumer_heartbeat_interval_ms}",
        )
    if config.group_max_session_timeout_ms < config.group_min_session_timeout_ms:
        raise ConfigError(
            "group.max.session.timeout.ms",
            str(config.group_max_session_timeout_ms),
            f"at least group.min.session.timeout.ms, {config.group_min_session_timeout_ms}",
        )

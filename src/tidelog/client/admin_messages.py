"""Between what an admin says and what goes over the wire."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.client.admin_values import (
    ConfigEntry,
    ConfigSynonym,
    LogDirDescription,
    MorePartitions,
    NewTopic,
    ProducerDescription,
    RemoteReplica,
    ReplicaDescription,
)
from tidelog.model import TopicPartition
from tidelog.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from tidelog.wire.messages.describe_configs import DescribeConfigsResourceResult
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsResult
from tidelog.wire.messages.describe_producers import ProducerState
from tidelog.wire.messages.describe_replicas import ReplicaOfPartition, ReplicasOfTopic


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions under their topics, each once, in the order they came."""
    found: dict[str, dict[TopicPartition, None]] = {}
    for key in partitions:
        found.setdefault(key.topic, {})[key] = None
    return {topic: list(keys) for topic, keys in found.items()}


def replica(topic: ReplicasOfTopic, row: ReplicaOfPartition) -> ReplicaDescription:
    """A replica as its broker told of it."""
    return ReplicaDescription(
        topic_partition=TopicPartition(topic.topic, row.partition_index),
        topic_id=topic.topic_id,
        code=row.error_code,
        is_leader=row.is_leader,
        leader_id=row.leader_id,
        leader_epoch=row.leader_epoch,
        last_epoch=row.last_epoch,
        log_start_offset=row.log_start_offset,
        log_end_offset=row.log_end_offset,
        high_watermark=row.high_watermark,
        last_stable_offset=row.last_stable_offset,
        isr=row.isr,
        assignment=row.assignment,
        remotes=tuple(RemoteReplica(one.broker_id, one.log_end_offset, one.last_caught_up_ms) for one in row.remotes),
    )


def growing_topic(topic: MorePartitions) -> CreatePartitionsTopic:
    """A topic to grow, as it is asked for."""
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in topic.assignments)
    return CreatePartitionsTopic(name=topic.name, count=topic.total_count, assignments=assignments)


def config_entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    """A setting as it was answered."""
    return ConfigEntry(
        name=row.name,
        value=row.value,
        source=row.config_source,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        synonyms=tuple(ConfigSynonym(one.name, one.value, one.source) for one in row.synonyms),
        value_type=row.config_type,
        documentation=row.documentation,
    )


def log_dir(row: DescribeLogDirsResult) -> LogDirDescription:
    """A log directory as it was answered."""
    return LogDirDescription(
        path=row.log_dir,
        code=row.error_code,
        sizes={
            TopicPartition(topic.name, one.partition_index): one.partition_size
            for topic in row.topics
            for one in topic.partitions
        },
        total_bytes=row.total_bytes,
        usable_bytes=row.usable_bytes,
    )


def producer(row: ProducerState) -> ProducerDescription:
    """A producer as it was answered."""
    return ProducerDescription(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        last_sequence=row.last_sequence,
        last_timestamp_ms=row.last_timestamp,
        coordinator_epoch=row.coordinator_epoch,
        transaction_first_offset=row.current_txn_start_offset,
    )


def creatable_topic(topic: NewTopic) -> CreatableTopic:
    """A topic to create, as it is asked for."""
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partition_count,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in sorted(topic.assignment.items())
        ),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )

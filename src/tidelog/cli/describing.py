"""Topics as the command line shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.cli.failure import CommandFailed
from tidelog.cli.output import Row
from tidelog.cli.partition_names import Wanted, chosen, topics_of
from tidelog.client import (
    Admin,
    ClientConfig,
    ClientRuntime,
    Cluster,
    ConfigResource,
    LogDirDescription,
    PartitionMetadata,
    ResourceKind,
    TopicMetadata,
)
from tidelog.client.errors import ClientError
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition

MIN_ISR: Final = "min.insync.replicas"
ANSWER_WITHIN_S: Final = 5.0  # of a broker that is asked how it is


async def described_topic(cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, name: str) -> TopicMetadata:
    """A topic that must exist; asking does not create it. Raises CommandFailed."""
    [topic] = await described_topics(cluster, config, runtime, [name])
    return topic


async def described_topics(
    cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, names: Sequence[str]
) -> list[TopicMetadata]:
    """Topics that must exist, in this order. Raises CommandFailed."""
    topics = []
    for name, described in (await Admin(cluster, config, runtime).describe_topics(names)).items():
        if isinstance(described, ErrorCode):
            raise CommandFailed(f"topic {name!r}: {described.name}")
        topics.append(described)
    return topics


async def chosen_partitions(
    cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, wanted: Sequence[Wanted]
) -> list[TopicPartition]:
    """The partitions that arguments name, all of which must exist. Raises CommandFailed."""
    topics = await described_topics(cluster, config, runtime, topics_of(wanted))
    return chosen(wanted, {topic.name: len(topic.partitions) for topic in topics})


def partitions_of(topic: TopicMetadata, index: int | None) -> list[TopicPartition]:
    """One partition of a topic, or all. Raises CommandFailed for one that is not there."""
    if index is not None and index >= len(topic.partitions):
        raise CommandFailed(f"topic {topic.name!r} has {len(topic.partitions)} partition(s), no {index}")
    return [TopicPartition(topic.name, each.index) for each in topic.partitions if index in {None, each.index}]


PARTITION_COLUMNS = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "log_start_offset",
    "log_end_offset",
)


def partition_row(
    topic: str, partition: PartitionMetadata, offsets: Mapping[TopicPartition, tuple[Offset, Offset]]
) -> Row:
    """What is known of a partition; offsets only where it has a leader who could be asked."""
    start, end = offsets.get(TopicPartition(topic, partition.index), (None, None))
    return {
        "topic": topic,
        "partition": partition.index,
        "leader": partition.leader.broker_id if partition.has_leader else None,
        "leader_epoch": partition.leader.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "log_start_offset": start,
        "log_end_offset": end,
    }


async def log_directories(
    cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, brokers: Iterable[BrokerId]
) -> dict[BrokerId, tuple[LogDirDescription, ...] | str]:
    """The log directories of each broker, all asked at once; of one that does not answer, or does not tell, the reason."""
    admin = Admin(cluster, config, runtime)

    async def ask(broker: BrokerId) -> tuple[LogDirDescription, ...] | str:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return (await admin.describe_log_dirs([broker]))[broker]
        except TimeoutError:
            return f"no answer in {ANSWER_WITHIN_S:g} s"
        except ClientError as failure:
            return str(failure)

    wanted = list(brokers)
    return dict(zip(wanted, await asyncio.gather(*map(ask, wanted)), strict=True))


async def min_isr_of(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """How many replicas of each topic must be in sync for acks=all; topics that are gone meanwhile are left out."""
    resources = [ConfigResource(ResourceKind.TOPIC, topic) for topic in topics]
    found = await admin.describe_configs(resources, names=[MIN_ISR])
    values = {each.resource.name: each.configs[MIN_ISR].value for each in found if MIN_ISR in each.configs}
    return {topic: int(value) for topic, value in values.items() if value is not None}

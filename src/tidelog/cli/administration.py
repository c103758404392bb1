"""What operators ask of a cluster beyond making topics: more partitions, other settings, forgotten records.

Each asks the broker that can do it (the controller, the broker concerned, the leader) and gives back one outcome per thing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.cli.config_changes import Change, Resource, ResourceKind
from tidelog.cli.failure import CommandFailed
from tidelog.client import Cluster, TopicMetadata
from tidelog.model import BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


class Outcome(NamedTuple):
    """What became of one thing."""

    code: ErrorCode
    message: str | None = None

    def check(self, what: str) -> None:
        """Raise CommandFailed unless it was done."""
        if self.code is not ErrorCode.NONE:
            raise CommandFailed(f"{what}: {self.code.name}" + (f": {self.message}" if self.message else ""))


async def add_partitions(cluster: Cluster, topic: str, *, total: int, is_dry_run: bool) -> Outcome:
    """Let a topic have so many partitions in all."""
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=topic, count=total),), validate_only=is_dry_run
    )
    [result] = (await cluster.request(await _controller(cluster), request)).results
    return Outcome(result.error_code, result.error_message)


async def alter_configs(
    cluster: Cluster, resource: Resource, changes: Sequence[Change], *, is_dry_run: bool
) -> Outcome:
    """Change some settings of a topic or broker."""
    wanted = AlterConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configs=tuple(
            AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in changes
        ),
    )
    request = IncrementalAlterConfigsRequest(resources=(wanted,), validate_only=is_dry_run)
    [result] = (await cluster.request(await _asked_about(cluster, resource), request)).responses
    return Outcome(result.error_code, result.error_message)


async def describe_configs(cluster: Cluster, resource: Resource) -> list[DescribeConfigsResourceResult]:
    """All settings of a topic or broker, sorted by name. Raises CommandFailed."""
    wanted = DescribeConfigsResource(resource_type=resource.kind, resource_name=resource.name)
    request = DescribeConfigsRequest(resources=(wanted,), include_synonyms=True, include_documentation=True)
    [result] = (await cluster.request(await _asked_about(cluster, resource), request)).results
    Outcome(result.error_code, result.error_message).check(str(resource))
    return sorted(result.configs, key=lambda config: config.name)


async def delete_records(
    cluster: Cluster, topic: TopicMetadata, before: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, tuple[Outcome, Offset]]:
    """Forget what lies below an offset; the outcome and where each partition starts now."""
    by_leader: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for each in before:
        by_leader[topic.partitions[each.index].leader.broker_id].append(each)
    await cluster.refresh_in_time()
    outcomes = {}
    for leader, led in sorted(by_leader.items()):
        partitions = tuple(DeleteRecordsPartition(partition_index=each.index, offset=before[each]) for each in led)
        request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic.name, partitions=partitions),))
        for result in (await cluster.request(leader, request)).topics[0].partitions:
            outcome = Outcome(result.error_code), result.low_watermark
            outcomes[TopicPartition(topic.name, result.partition_index)] = outcome
    return outcomes


async def _asked_about(cluster: Cluster, resource: Resource) -> BrokerId:
    """A broker knows its own settings best; of topics the controller knows most."""
    if resource.kind is ResourceKind.BROKER and resource.name:
        await cluster.refresh_in_time()
        broker_id = int(resource.name)
        if broker_id not in cluster.metadata.brokers:
            raise CommandFailed(f"broker {broker_id} is not there; there are {sorted(cluster.metadata.brokers)}")
        return broker_id
    return await _controller(cluster)


async def _controller(cluster: Cluster) -> BrokerId:
    await cluster.refresh_in_time()
    return cluster.metadata.controller_id

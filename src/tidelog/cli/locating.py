"""Which broker looks after a group or a transactional id, and why it is that one."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.cli.describing import described_topic
from tidelog.cli.output import Row
from tidelog.client import Cluster, ConsumerConfig
from tidelog.coordinator.placement import java_hash, partition_of
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime

COLUMNS = ("partition", "formula", "coordinator", "address", "replicas", "isr")


async def located_rows(
    connected: tuple[Cluster, ConsumerConfig, Runtime],
    topic_name: str,
    column: str,
    found: Mapping[str, BrokerId | ErrorCode],
) -> list[Row]:
    """A row for each name, which stands under `column`, with its partition of the internal topic. Raises CommandFailed."""
    cluster, config, runtime = connected
    topic = await described_topic(cluster, config, runtime, topic_name)
    count = len(topic.partitions)
    rows: list[Row] = []
    for name, coordinator in found.items():
        partition = partition_of(name, count)
        endpoint = None if isinstance(coordinator, ErrorCode) else cluster.metadata.brokers.get(coordinator)
        rows.append(
            {
                column: name,
                "partition": partition,
                "formula": f"abs({java_hash(name)}) % {count} = {partition}",
                "coordinator": None if isinstance(coordinator, ErrorCode) else coordinator,
                "address": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
                "replicas": topic.partitions[partition].replicas,
                "isr": topic.partitions[partition].isr,
            }
        )
    return rows

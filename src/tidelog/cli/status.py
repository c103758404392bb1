"""How the cluster is: who is there, how much it holds, and whether every partition has a leader and all its replicas.

Exits with 0 when all is well, with 1 when a partition has no leader, lacks replicas, or the cluster cannot be reached.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK
from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, render_table, shown, size

if TYPE_CHECKING:
    from tidelog.client import Cluster, ClusterDescription, ConsumerConfig, TopicMetadata
    from tidelog.runtime import Runtime

BROKER_COLUMNS: Final = ("broker", "address", "rack", "leaders", "replicas", "size")
TROUBLE_COLUMNS: Final = ("topic", "partition", "leader", "replicas", "isr", "trouble")

_EXAMPLES: Final = """\
examples:
  tidelog status
  tidelog status -b broker.example:9092 --format json | jq .under_replicated_partitions
  tidelog status > /dev/null || echo 'something is wrong'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog status`."""
    parser.epilog = _EXAMPLES
    add_format_argument(parser)
    finish_verb(parser, _status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is shown."""

    cluster: ClusterDescription
    topics: Sequence[TopicMetadata]
    sizes: Mapping[int, int]  # bytes of all logs, by broker; those that could not be asked are missing

    @property
    def offline(self) -> list[Row]:
        """Partitions nobody can write to or read from."""
        return [row for row in self.troubles if row["trouble"] == "no leader"]

    @property
    def under_replicated(self) -> list[Row]:
        """Partitions with a leader and fewer in-sync replicas than assigned ones."""
        return [row for row in self.troubles if row["trouble"] == "under-replicated"]

    @property
    def troubles(self) -> list[Row]:
        """Every partition with something wrong."""
        return [
            {
                "topic": topic.name,
                "partition": each.index,
                "leader": each.leader.broker_id if each.has_leader else None,
                "replicas": each.replicas,
                "isr": each.isr,
                "trouble": "under-replicated" if each.has_leader else "no leader",
            }
            for topic in self.topics
            for each in topic.partitions
            if not each.has_leader or len(each.isr) < len(each.replicas)
        ]

    @property
    def partition_count(self) -> int:
        """Partitions of all topics, each counted once."""
        return sum(len(topic.partitions) for topic in self.topics)

    @property
    def brokers(self) -> list[Row]:
        """What each broker has to do."""
        partitions = [each for topic in self.topics for each in topic.partitions]
        return [
            {
                "broker": broker.broker_id,
                "is_controller": broker.broker_id == self.cluster.controller_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leaders": sum(each.leader.broker_id == broker.broker_id for each in partitions),
                "replicas": sum(broker.broker_id in each.replicas for each in partitions),
                "size_bytes": self.sizes.get(broker.broker_id),
            }
            for broker in self.cluster.brokers
        ]

    def as_json(self) -> str:
        """One object for programs."""
        content = {
            "cluster_id": self.cluster.cluster_id,
            "controller": self.cluster.controller_id,
            "topics": len(self.topics),
            "partitions": self.partition_count,
            "offline_partitions": len(self.offline),
            "under_replicated_partitions": len(self.under_replicated),
            "size_bytes": sum(self.sizes.values()) if self.sizes else None,
            "brokers": self.brokers,
            "troubles": self.troubles,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def as_text(self, *, in_colour: bool) -> str:
        """A few lines for people."""
        troubles = self.troubles
        health = paint("all partitions are in sync", "green", wanted=in_colour)
        if troubles:
            counts = f"{len(self.offline)} without a leader, {len(self.under_replicated)} under-replicated"
            health = paint(counts, "red", wanted=in_colour)
        facts = {
            "cluster": self.cluster.cluster_id or "-",
            "controller": f"broker {self.cluster.controller_id}",
            "topics": f"{len(self.topics):,}",
            "partitions": f"{self.partition_count:,}",
            "size": size(sum(self.sizes.values())) if self.sizes else "-",
            "health": health,
        }
        lines = "".join(f"{paint(f'{name:<10}', 'bold', wanted=in_colour)}  {fact}\n" for name, fact in facts.items())
        text = f"{lines}\n{self._broker_table(in_colour=in_colour)}"
        if troubles:
            cells = [[shown(row[column]) for column in TROUBLE_COLUMNS] for row in troubles]
            text += "\n" + render_table(TROUBLE_COLUMNS, cells, in_colour=in_colour)
        return text

    def _broker_table(self, *, in_colour: bool) -> str:
        rows = [
            {
                **row,
                "broker": f"{row['broker']}*" if row["is_controller"] else str(row["broker"]),
                "address": f"{row['host']}:{row['port']}",
                "size": None if row["size_bytes"] is None else size(self.sizes[broker.broker_id]),
            }
            for row, broker in zip(self.brokers, self.cluster.brokers, strict=True)
        ]
        cells = [[shown(row[column]) for column in BROKER_COLUMNS] for row in rows]
        return render_table(BROKER_COLUMNS, cells, in_colour=in_colour)


async def _status(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.describing import described_topics, log_sizes
    from tidelog.client import Admin

    admin = Admin(cluster, config, runtime)
    description = await admin.describe_cluster()
    topics = await described_topics(cluster, config, runtime, await admin.list_topics(include_internal=True))
    status = Status(cluster=description, topics=topics, sizes=await log_sizes(cluster, description.brokers))
    if OutputFormat(options.format) is OutputFormat.JSON:
        sys.stdout.write(status.as_json())
    else:
        sys.stdout.write(status.as_text(in_colour=is_coloured(sys.stdout)))
    return EXIT_FAILED if status.troubles else EXIT_OK

"""How the cluster is: who is there, how much it holds, and whether every partition has a leader and all its replicas.

Exits with 0 when all is well, with 1 when a partition has no leader or lacks replicas, a broker does not answer or was given up, there is no
controller, a log directory is full or has failed, or the cluster cannot be reached. Of a broker that was given up and had no replica nobody
knows any more; whoever counts brokers asks `kafka_brokers` of the metrics.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK
from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, render_table, shown, size

if TYPE_CHECKING:
    from tidelog.client import (
        Cluster,
        ClusterDescription,
        ConsumerConfig,
        LogDirDescription,
        PartitionMetadata,
        TopicMetadata,
    )
    from tidelog.runtime import Runtime

BROKER_COLUMNS: Final = ("broker", "address", "rack", "leaders", "replicas", "size", "free")
FULL_BELOW_BYTES: Final = 1 << 20  # less has no room for a batch and what belongs to it
NOBODY: Final = -1  # where the controller would be named
NO_LEADER: Final = "no leader"
UNDER_REPLICATED: Final = "under-replicated"
UNDER_MIN_ISR: Final = "under-replicated, acks=all refused"
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
    directories: Mapping[int, Sequence[LogDirDescription] | str]  # by broker; of one that does not answer, why
    min_isr: Mapping[str, int] = field(default_factory=dict)  # by topic, of those that are in trouble

    @property
    def sizes(self) -> dict[int, int]:
        """Bytes of all logs, by broker that answers."""
        return {
            broker: sum(size for each in directories for size in each.sizes.values())
            for broker, directories in self.directories.items()
            if not isinstance(directories, str)
        }

    @property
    def free(self) -> dict[int, int]:
        """Bytes that the fullest file system has left, by broker that tells."""
        left = {
            broker: [each.usable_bytes for each in directories if each.usable_bytes >= 0]
            for broker, directories in self.directories.items()
            if not isinstance(directories, str)
        }
        return {broker: min(usable) for broker, usable in left.items() if usable}

    @property
    def unreachable(self) -> dict[int, str]:
        """Brokers that are said to be there and do not answer, and why."""
        return {broker: why for broker, why in self.directories.items() if isinstance(why, str)}

    @property
    def bad_directories(self) -> list[str]:
        """Log directories that have failed or are full, as sentences."""
        return [
            f"broker {broker}: {each.path} {problem}"
            for broker, directories in self.directories.items()
            if not isinstance(directories, str)
            for each in directories
            if (problem := _problem(each))
        ]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong that can be seen from here."""
        return self.has_controller and not (self.troubles or self.unreachable or self.missing or self.bad_directories)

    @property
    def has_controller(self) -> bool:
        """Whether anybody decides now."""
        return self.cluster.controller_id != NOBODY

    @property
    def missing(self) -> dict[int, int]:
        """Brokers that were given up, by what is to be on them: how many replicas. One that had none is not known to anybody."""
        there = {broker.broker_id for broker in self.cluster.brokers}
        replicas = [broker for topic in self.topics for each in topic.partitions for broker in each.replicas]
        return dict(sorted(Counter(broker for broker in replicas if broker not in there).items()))

    @property
    def offline(self) -> list[Row]:
        """Partitions nobody can write to or read from."""
        return [row for row in self.troubles if row["trouble"] == NO_LEADER]

    @property
    def under_replicated(self) -> list[Row]:
        """Partitions with a leader and fewer in-sync replicas than assigned ones."""
        return [row for row in self.troubles if row["trouble"] in {UNDER_REPLICATED, UNDER_MIN_ISR}]

    @property
    def under_min_isr(self) -> list[Row]:
        """Partitions with a leader that refuses acks=all, since too few replicas are in sync."""
        return [row for row in self.troubles if row["trouble"] == UNDER_MIN_ISR]

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
                "trouble": self._trouble(topic.name, each),
            }
            for topic in self.topics
            for each in topic.partitions
            if not each.has_leader or len(each.isr) < len(each.replicas)
        ]

    def _trouble(self, topic: str, partition: PartitionMetadata) -> str:
        if not partition.has_leader:
            return NO_LEADER
        return UNDER_MIN_ISR if len(partition.isr) < self.min_isr.get(topic, 1) else UNDER_REPLICATED

    @property
    def partition_count(self) -> int:
        """Partitions of all topics, each counted once."""
        return sum(len(topic.partitions) for topic in self.topics)

    @property
    def brokers(self) -> list[Row]:
        """What each broker has to do."""
        sizes, free, unreachable = self.sizes, self.free, self.unreachable
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
                "size_bytes": sizes.get(broker.broker_id),
                "free_bytes": free.get(broker.broker_id),
                "error": unreachable.get(broker.broker_id),
            }
            for broker in self.cluster.brokers
        ]

    def as_json(self) -> str:
        """One object for programs."""
        content = {
            "cluster_id": self.cluster.cluster_id,
            "controller": self.cluster.controller_id if self.has_controller else None,
            "topics": len(self.topics),
            "partitions": self.partition_count,
            "offline_partitions": len(self.offline),
            "under_replicated_partitions": len(self.under_replicated),
            "under_min_isr_partitions": len(self.under_min_isr),
            "size_bytes": sum(self.sizes.values()) if self.sizes else None,
            "unreachable_brokers": sorted(self.unreachable),
            "missing_brokers": sorted(self.missing),
            "bad_log_directories": self.bad_directories,
            "brokers": self.brokers,
            "troubles": self.troubles,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def as_text(self, *, in_colour: bool) -> str:
        """A few lines for people."""
        troubles = self.troubles
        health = paint("all partitions are in sync", "green", wanted=in_colour)
        if not self.is_healthy:
            health = paint("; ".join(self._complaints()), "red", wanted=in_colour)
        facts = {
            "cluster": self.cluster.cluster_id or "-",
            "controller": f"broker {self.cluster.controller_id}" if self.has_controller else "-",
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

    def _complaints(self) -> list[str]:
        silent = [f"broker {broker} does not answer ({why})" for broker, why in self.unreachable.items()]
        gone = [
            f"broker {broker} is gone ({count} replica{'' if count == 1 else 's'} assigned)"
            for broker, count in self.missing.items()
        ]
        nobody = [] if self.has_controller else ["there is no controller: nothing can be decided"]
        return [*nobody, *silent, *gone, *self.bad_directories, *([self._counts()] if self.troubles else [])]

    def _counts(self) -> str:
        counts = f"{len(self.offline)} without a leader, {len(self.under_replicated)} under-replicated"
        return f"{counts} ({len(self.under_min_isr)} below min.insync.replicas)" if self.under_min_isr else counts

    def _broker_table(self, *, in_colour: bool) -> str:
        sizes = {broker: size(count) for broker, count in self.sizes.items()}
        free = {broker: size(count) for broker, count in self.free.items()}
        rows = [
            {
                **row,
                "broker": f"{row['broker']}*" if row["is_controller"] else str(row["broker"]),
                "address": f"{row['host']}:{row['port']}",
                "size": sizes.get(broker.broker_id),
                "free": free.get(broker.broker_id),
            }
            for row, broker in zip(self.brokers, self.cluster.brokers, strict=True)
        ]
        cells = [[shown(row[column]) for column in BROKER_COLUMNS] for row in rows]
        return render_table(BROKER_COLUMNS, cells, in_colour=in_colour)


async def _status(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.describing import described_topics, log_directories, min_isr_of
    from tidelog.client import Admin

    admin = Admin(cluster, config, runtime)
    description = await admin.describe_cluster()
    topics = await described_topics(cluster, config, runtime, await admin.list_topics(include_internal=True))
    directories = await log_directories(cluster, config, runtime, [each.broker_id for each in description.brokers])
    status = Status(cluster=description, topics=topics, directories=directories)
    if status.troubles:
        names = dict.fromkeys(str(row["topic"]) for row in status.troubles)
        status = replace(status, min_isr=await min_isr_of(admin, names))
    if OutputFormat(options.format) is OutputFormat.JSON:
        sys.stdout.write(status.as_json())
    else:
        sys.stdout.write(status.as_text(in_colour=is_coloured(sys.stdout)))
    return EXIT_OK if status.is_healthy else EXIT_FAILED


def _problem(directory: LogDirDescription) -> str:
    from tidelog.model import ErrorCode

    if directory.code is not ErrorCode.NONE:
        return f"has failed ({directory.code.name})"
    if 0 <= directory.usable_bytes < FULL_BELOW_BYTES:
        return f"is full ({size(directory.usable_bytes)} free)"
    return ""

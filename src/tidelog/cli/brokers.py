"""List and describe the brokers of a cluster, and kill one to see what happens."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb, whole_number
from tidelog.cli.failure import EXIT_OK, CommandFailed
from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, render_table, shown, size, write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.client import Cluster, ClusterDescription, ConsumerConfig, LogDirDescription, TopicMetadata
    from tidelog.model import BrokerId
    from tidelog.runtime import Runtime

COLUMNS: Final = ("broker", "address", "rack", "controller", "leaders", "replicas", "in_sync", "epoch")
DIRECTORY_COLUMNS: Final = ("directory", "partitions", "size", "free", "error")

_EXAMPLES: Final = """\
examples:
  tidelog brokers list
  tidelog brokers describe 2                     with its log directories
  tidelog brokers kill 2                         SIGKILL, on this machine: see who leads then
  tidelog brokers list --format json | jq '.[] | select(.is_controller) | .broker'

LEADERS, REPLICAS and IN-SYNC count partitions. EPOCH is that of the broker's registration: it grows with every start.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog brokers` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="name all live brokers", epilog=_EXAMPLES)
    add_format_argument(listing)
    finish_verb(listing, _list)
    describing = verbs.add_parser("describe", help="show brokers and their log directories", epilog=_EXAMPLES)
    describing.add_argument(
        "ids", nargs="*", type=whole_number(low=0, high=2**31 - 1, what="a broker id"), metavar="ID",
        help="which (default: all)",
    )  # fmt: skip
    add_format_argument(describing)
    finish_verb(describing, _describe)
    killing = verbs.add_parser("kill", help="kill a broker of this machine (SIGKILL)", epilog=_EXAMPLES)
    killing.add_argument("id", type=whole_number(low=0, high=2**31 - 1, what="a broker id"), metavar="ID", help="which")
    finish_verb(killing, _kill)


async def _list(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    rows = await _rows(cluster, config, runtime)
    write_rows(sys.stdout, OutputFormat(options.format), COLUMNS, rows)
    return EXIT_OK


async def _describe(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.describing import log_directories

    rows = await _rows(cluster, config, runtime)
    there = [int(str(row["broker"])) for row in rows]
    for missing in [each for each in options.ids if each not in there]:
        raise CommandFailed(f"broker {missing} is not there; there are {shown(there)}")
    wanted = [row for row in rows if not options.ids or row["broker"] in options.ids]
    directories = await log_directories(cluster, config, runtime, [int(str(row["broker"])) for row in wanted])
    if OutputFormat(options.format) is OutputFormat.JSON:
        content = [{**row, **_as_fields(directories[int(str(row["broker"]))])} for row in wanted]
        sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    else:
        parts = [_text(row, directories[int(str(row["broker"]))]) for row in wanted]
        sys.stdout.write("\n".join(parts))
    return EXIT_OK


async def _kill(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.broker_process import endpoint_of, holder_of
    from tidelog.client import Admin

    broker = endpoint_of(options.id, (await Admin(cluster, config, runtime).describe_cluster()).brokers)
    holder = holder_of(broker)
    os.kill(holder.pid, signal.SIGKILL)
    sys.stdout.write(f"killed broker {broker.broker_id} ({holder})\n")
    return EXIT_OK


async def _rows(cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> list[Row]:
    from tidelog.cli.describing import described_topics
    from tidelog.client import Admin
    from tidelog.client.errors import BrokersUnreachable

    admin = Admin(cluster, config, runtime)
    description = await admin.describe_cluster()
    topics = await described_topics(cluster, config, runtime, await admin.list_topics(include_internal=True))
    try:
        epochs = await admin.broker_epochs()
    except BrokersUnreachable:  # they are Kafka's, who do not tell
        epochs = {}
    return broker_rows(description, topics, epochs)


def broker_rows(
    cluster: ClusterDescription, topics: Sequence[TopicMetadata], epochs: Mapping[BrokerId, int]
) -> list[Row]:
    """One row per live broker; its epoch only where it tells."""
    partitions = [each for topic in topics for each in topic.partitions]
    return [
        {
            "broker": broker.broker_id,
            "address": f"{broker.host}:{broker.port}",
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "controller": "*" if broker.broker_id == cluster.controller_id else None,
            "is_controller": broker.broker_id == cluster.controller_id,
            "leaders": sum(each.leader.broker_id == broker.broker_id for each in partitions),
            "replicas": sum(broker.broker_id in each.replicas for each in partitions),
            "in_sync": sum(broker.broker_id in each.isr for each in partitions),
            "epoch": epochs.get(broker.broker_id),
        }
        for broker in cluster.brokers
    ]


def directory_rows(directories: Sequence[LogDirDescription]) -> list[Row]:
    """One row per log directory."""
    from tidelog.model import ErrorCode

    return [
        {
            "directory": each.path,
            "partitions": len(each.sizes),
            "size_bytes": sum(each.sizes.values()),
            "size": size(sum(each.sizes.values())),
            "free": size(each.usable_bytes) if each.usable_bytes >= 0 else None,
            "error": None if each.code is ErrorCode.NONE else each.code.name,
        }
        for each in directories
    ]


def _as_fields(directories: Sequence[LogDirDescription] | str) -> dict[str, object]:
    if isinstance(directories, str):
        return {"log_dirs": None, "log_dirs_error": directories}
    return {"log_dirs": directory_rows(directories)}


def _text(row: Row, directories: Sequence[LogDirDescription] | str) -> str:
    in_colour = is_coloured(sys.stdout)
    facts = {**{name: shown(row[name]) for name in COLUMNS}, "controller": "yes" if row["is_controller"] else "no"}
    lines = [f"{paint(f'{name:<10}', 'bold', wanted=in_colour)}  {fact}\n" for name, fact in facts.items()]
    if isinstance(directories, str):
        return "".join(lines) + f"{paint('log dirs  ', 'bold', wanted=in_colour)}  not known: {directories}\n"
    cells = [[shown(each[column]) for column in DIRECTORY_COLUMNS] for each in directory_rows(directories)]
    return "".join(lines) + "\n" + render_table(DIRECTORY_COLUMNS, cells, in_colour=in_colour)

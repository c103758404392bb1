"""Create, list, describe, alter, move and delete topics."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import (
    add_format_argument,
    checked,
    finish_verb,
    key_value,
    whole_number,
)
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK
from tidelog.cli.output import OutputFormat, Row, write_rows
from tidelog.cli.topics_altering import add_alter, add_delete_records
from tidelog.cli.topics_reassign import add_reassign

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tidelog.client import ClientConfig, Cluster, ConsumerConfig, TopicMetadata, TopicResult
    from tidelog.model import ErrorCode, Offset, TopicPartition
    from tidelog.runtime import Runtime

    Work = Callable[[argparse.Namespace, Cluster, ConsumerConfig, Runtime], Coroutine[object, object, int]]

_EXAMPLES: Final = """examples:
  tidelog topics create orders --partitions 6 --config retention.ms=86400000
  tidelog topics list
  tidelog topics describe orders --format json
  tidelog topics alter orders --partitions 12
  tidelog topics reassign -t orders --to 1,2,3 --wait
  tidelog topics delete-records orders --before end
  tidelog topics delete orders --if-exists
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog topics` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_create(verbs.add_parser("create", help="make topics", epilog=_EXAMPLES))
    add_alter(verbs.add_parser("alter", help="give a topic more partitions or other settings"))
    add_reassign(verbs.add_parser("reassign", help="move partitions to other brokers"))
    _add_delete(verbs.add_parser("delete", help="delete topics with all they hold", epilog=_EXAMPLES))
    add_delete_records(verbs.add_parser("delete-records", help="let the beginning of a topic be forgotten"))

    listing = verbs.add_parser("list", help="name all topics", epilog=_EXAMPLES)
    listing.add_argument("--internal", action="store_true", help="also those the brokers keep for themselves")
    add_format_argument(listing)
    finish_verb(listing, _list)

    describing = verbs.add_parser("describe", help="show partitions, leaders, replicas and offsets", epilog=_EXAMPLES)
    describing.add_argument("names", nargs="*", metavar="TOPIC", help="which (default: all)")
    add_format_argument(describing)
    finish_verb(describing, _describe)


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partitions", type=whole_number(low=1, high=100_000, what="a number of partitions"), default=-1, metavar="N",
        help="(default: the broker's num.partitions)",
    )  # fmt: skip
    parser.add_argument(
        "-r", "--replication-factor", type=whole_number(low=1, high=32767, what="a replication factor"), default=-1, metavar="N",
        help="(default: the broker's default.replication.factor)",
    )  # fmt: skip
    parser.add_argument(
        "-c", "--config", dest="configs", action="append", default=[], type=checked(key_value), metavar="KEY=VALUE",
        help="setting of the topic, e.g. cleanup.policy=compact; may be repeated",
    )  # fmt: skip
    parser.add_argument("--if-not-exists", action="store_true", help="one that is there already is fine")
    parser.add_argument("--dry-run", action="store_true", help="only check whether it could be done")
    finish_verb(parser, _create)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument("--if-exists", action="store_true", help="one that is not there is fine")
    finish_verb(parser, _delete)


async def _create(options: argparse.Namespace, cluster: Cluster, config: ClientConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin, NewTopic
    from tidelog.model import ErrorCode

    topics = [
        NewTopic(
            name=name,
            partition_count=options.partitions,
            replication_factor=options.replication_factor,
            configs=dict(options.configs),
        )
        for name in options.names
    ]
    results = await Admin(cluster, config, runtime).create_topics(topics, validate_only=options.dry_run)
    fine = ErrorCode.TOPIC_ALREADY_EXISTS if options.if_not_exists else ErrorCode.NONE
    return _report(results, done="could create" if options.dry_run else "created", fine=fine)


async def _delete(options: argparse.Namespace, cluster: Cluster, config: ClientConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.model import ErrorCode

    results = await Admin(cluster, config, runtime).delete_topics(options.names)
    return _report(
        results, done="deleted", fine=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if options.if_exists else ErrorCode.NONE
    )


def _report(results: Sequence[TopicResult], *, done: str, fine: ErrorCode) -> int:
    """Say what became of each topic; a result of `fine` is as good as success."""
    exit_code = EXIT_OK
    for result in results:
        if result.is_ok:
            sys.stdout.write(f"{done} {result.name}\n")
        elif result.code is not fine:
            exit_code = EXIT_FAILED
            sys.stderr.write(f"tidelog topics: {result.name}: {result.code.name}")
            sys.stderr.write(f": {result.message}\n" if result.message else "\n")
    return exit_code


async def _list(options: argparse.Namespace, cluster: Cluster, config: ClientConfig, runtime: Runtime) -> int:
    from tidelog.cli.describing import described_topics
    from tidelog.client import Admin

    names = await Admin(cluster, config, runtime).list_topics(include_internal=options.internal)
    topics = await described_topics(cluster, config, runtime, names)
    rows: list[Row] = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": max(len(partition.replicas) for partition in topic.partitions),
        }
        for topic in topics
    ]
    write_rows(sys.stdout, OutputFormat(options.format), ("topic", "partitions", "replication_factor"), rows)
    return EXIT_OK


async def _describe(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.describing import PARTITION_COLUMNS, described_topics, partition_row
    from tidelog.client import Admin

    names = options.names or await Admin(cluster, config, runtime).list_topics()
    topics = await described_topics(cluster, config, runtime, names)
    offsets = await _offsets(topics, cluster, config, runtime)
    output_format = OutputFormat(options.format)
    if output_format is OutputFormat.TABLE:
        lines = [partition_row(topic.name, each, offsets) for topic in topics for each in topic.partitions]
        write_rows(sys.stdout, output_format, PARTITION_COLUMNS, lines)
        return EXIT_OK
    rows: list[Row] = [
        {
            "topic": topic.name,
            "topic_id": None if topic.topic_id is None else str(topic.topic_id),
            "is_internal": topic.is_internal,
            "partitions": [partition_row(topic.name, each, offsets) for each in topic.partitions],
        }
        for topic in topics
    ]
    write_rows(sys.stdout, output_format, (), rows)
    return EXIT_OK


async def _offsets(
    topics: Sequence[TopicMetadata], cluster: Cluster, config: ConsumerConfig, runtime: Runtime
) -> dict[TopicPartition, tuple[Offset, Offset]]:
    """Start and end of every log whose leader can be asked."""
    from tidelog.client import Consumer
    from tidelog.model import TopicPartition

    led = [TopicPartition(topic.name, each.index) for topic in topics for each in topic.partitions if each.has_leader]
    async with Consumer(cluster, config, runtime) as consumer:
        starts, ends = await consumer.beginning_offsets(led), await consumer.end_offsets(led)
    return {each: (starts[each], ends[each]) for each in led}

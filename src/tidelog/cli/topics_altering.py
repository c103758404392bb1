"""The verbs of `tidelog topics` that change a topic: more partitions, other settings, forgotten records."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, checked, finish_verb, key_value, whole_number
from tidelog.cli.config_changes import Change, Operation, Resource, ResourceKind
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, WrongUsage
from tidelog.cli.output import OutputFormat, Row, write_rows

if TYPE_CHECKING:
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.runtime import Runtime

HIGH_WATERMARK: Final = -1  # "all there is", as DeleteRecords numbers it
COLUMNS: Final = ("topic", "partition", "log_start_offset", "error")

_ALTER_EXAMPLES: Final = """\
examples:
  tidelog topics alter orders --partitions 12                 keys go to other partitions from then on
  tidelog topics alter orders --config retention.ms=86400000
  tidelog topics alter orders --delete-config retention.ms    back to the default
"""
_DELETE_EXAMPLES: Final = """\
examples:
  tidelog topics delete-records orders -p 0 --before 1200     offset 1200 is the first that stays
  tidelog topics delete-records orders --before end           empty the topic
"""


def add_alter(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog topics alter`."""
    parser.epilog = _ALTER_EXAMPLES
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partitions", type=whole_number(low=1, high=100_000, what="a number of partitions"), metavar="N",
        help="how many it shall have in all; there is no way back",
    )  # fmt: skip
    parser.add_argument(
        "-c", "--config", dest="configs", action="append", default=[], type=checked(key_value), metavar="KEY=VALUE",
        help="setting of the topic; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--delete-config", dest="deleted_configs", action="append", default=[], metavar="KEY",
        help="setting that goes back to its default; may be repeated",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only check whether it could be done")
    finish_verb(parser, _alter)


async def _alter(options: argparse.Namespace, cluster: Cluster, _config: ConsumerConfig, _runtime: Runtime) -> int:
    changes = [Change(Operation.SET, name, value) for name, value in options.configs]
    changes += [Change(Operation.DELETE, name) for name in options.deleted_configs]
    if options.partitions is None and not changes:
        raise WrongUsage("nothing to change: --partitions, --config or --delete-config says what")
    from tidelog.cli.administration import add_partitions, alter_configs

    # Settings first: they can be taken back if the partitions are refused, and partitions cannot.
    if changes:
        topic = Resource(ResourceKind.TOPIC, options.name)
        (await alter_configs(cluster, topic, changes, is_dry_run=options.dry_run)).check(options.name)
    if options.partitions is not None:
        outcome = await add_partitions(cluster, options.name, total=options.partitions, is_dry_run=options.dry_run)
        outcome.check(options.name)
    sys.stdout.write(f"{'could alter' if options.dry_run else 'altered'} {options.name}\n")
    return EXIT_OK


def add_delete_records(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog topics delete-records`."""
    parser.epilog = _DELETE_EXAMPLES
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partition", type=whole_number(low=0, high=2**31 - 1, what="a partition"),
        help="only this partition (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--before", required=True, type=checked(parse_before), metavar="OFFSET|end",
        help="the first offset that stays; end forgets all there is",
    )  # fmt: skip
    add_format_argument(parser)
    finish_verb(parser, _delete_records)


def parse_before(text: str) -> int:
    """Read an offset, or `end`. Raises ValueError."""
    if text == "end":
        return HIGH_WATERMARK
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 63:
        raise ValueError(f"{text!r} is no offset; accepted is a number from 0 on, or end")
    return int(text)


async def _delete_records(
    options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime
) -> int:
    from tidelog.cli.administration import delete_records
    from tidelog.cli.describing import described_topic, partitions_of
    from tidelog.model import ErrorCode

    topic = await described_topic(cluster, config, runtime, options.name)
    before = dict.fromkeys(partitions_of(topic, options.partition), options.before)
    outcomes = await delete_records(cluster, topic, before)
    rows: list[Row] = [
        {
            "topic": each.topic,
            "partition": each.index,
            "log_start_offset": start if outcome.code is ErrorCode.NONE else None,
            "error": None if outcome.code is ErrorCode.NONE else outcome.code.name,
        }
        for each, (outcome, start) in sorted(outcomes.items())
    ]
    columns = COLUMNS if any(row["error"] for row in rows) else COLUMNS[:-1]
    write_rows(sys.stdout, OutputFormat(options.format), columns, rows)
    return EXIT_FAILED if any(row["error"] for row in rows) else EXIT_OK

"""Elect leaders: give leadership back to the preferred leaders, or make an out-of-sync replica lead."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, WrongUsage
from tidelog.cli.output import OutputFormat, Row, write_rows
from tidelog.cli.partition_names import add_partitions_argument

if TYPE_CHECKING:
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.runtime import Runtime

COLUMNS: Final = ("topic", "partition", "result")

_EXAMPLES: Final = """\
examples:
  tidelog leaders elect --all                       every partition back to its preferred leader
  tidelog leaders elect -t orders -t payments:3     only these
  tidelog leaders elect --unclean -t orders:0       somebody leads again, and RECORDS MAY BE LOST: only where all in-sync
                                                    replicas are gone for good
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog leaders` and of its verb."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    electing = verbs.add_parser("elect", help="elect leaders now", epilog=_EXAMPLES)
    kinds = electing.add_mutually_exclusive_group()
    kinds.add_argument(
        "--preferred", action="store_true", help="the first assigned replica, if it is in sync (this is the default)"
    )
    kinds.add_argument(
        "--unclean",
        action="store_true",
        help="any live replica where there is no leader; may lose acknowledged records",
    )
    add_partitions_argument(electing, "of which partitions")
    electing.add_argument("--all", action="store_true", help="of all partitions")
    add_format_argument(electing)
    finish_verb(electing, _elect)


async def _elect(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    if bool(options.wanted) == options.all:
        raise WrongUsage("-t TOPIC[:PARTITION] says of which partitions, or --all of all of them")
    from tidelog.cli.describing import chosen_partitions
    from tidelog.client import Admin, ElectionKind
    from tidelog.model import ErrorCode

    kind = ElectionKind.UNCLEAN if options.unclean else ElectionKind.PREFERRED
    partitions = None if options.all else await chosen_partitions(cluster, config, runtime, options.wanted)
    results = await Admin(cluster, config, runtime).elect_leaders(kind, partitions)
    fine = {ErrorCode.NONE: "elected", ErrorCode.ELECTION_NOT_NEEDED: "led by it already"}
    rows: list[Row] = [
        {
            "topic": each.topic,
            "partition": each.index,
            "result": fine.get(result.code, f"{result.code.name}" + (f": {result.message}" if result.message else "")),
        }
        for each, result in sorted(results.items())
    ]
    write_rows(sys.stdout, OutputFormat(options.format), COLUMNS, rows)
    return EXIT_OK if all(result.code in fine for result in results.values()) else EXIT_FAILED

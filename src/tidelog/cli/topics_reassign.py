"""`tidelog topics reassign`: move partitions to other brokers, look at moves under way, or stop them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, add_quiet_argument, checked, finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, WrongUsage
from tidelog.cli.output import OutputFormat, Row, write_rows
from tidelog.cli.partition_names import add_partitions_argument
from tidelog.cli.reassignment import parse_brokers, parse_file, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.client import Admin, Cluster, ConsumerConfig, Reassignment
    from tidelog.model import BrokerId, TopicPartition
    from tidelog.runtime import Runtime

    Wanted = Mapping[TopicPartition, tuple[BrokerId, ...] | None]

COLUMNS: Final = ("topic", "partition", "replicas", "adding", "removing")
LOOK_AGAIN_S: Final = 0.5
_ERASE: Final = "\r\x1b[K"

_EXAMPLES: Final = """\
examples:
  tidelog topics reassign -t orders --to 1,2,3 --wait     all partitions to these brokers, who take turns as preferred leader
  tidelog topics reassign -t orders:0 --to 3,1,2          one partition, broker 3 its preferred leader
  tidelog topics reassign --file moves.json               {"version": 1, "partitions": [{"topic": "orders", "partition": 0,
                                                          "replicas": [3, 1]}]}, the format of kafka-reassign-partitions.sh
  tidelog topics reassign --list                          what is on its way
  tidelog topics reassign --cancel -t orders              back to where it was; without -t or --file: every move

how fast records are copied is bounded by leader.replication.throttled.rate and follower.replication.throttled.rate of the
brokers, for the replicas that leader.replication.throttled.replicas and follower.... of the topic name
"""


def add_reassign(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog topics reassign`."""
    parser.epilog = _EXAMPLES
    add_partitions_argument(parser, "which partitions")
    parser.add_argument(
        "--to", type=checked(parse_brokers), metavar="ID,ID,...", help="the brokers that shall have them"
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help="moves in the format of Kafka's tool")
    verbs = parser.add_mutually_exclusive_group()
    verbs.add_argument("--list", action="store_true", help="show the moves under way and change nothing")
    verbs.add_argument("--cancel", action="store_true", help="stop moves and undo them")
    parser.add_argument("--wait", action="store_true", help="return when they are done")
    add_quiet_argument(parser)
    add_format_argument(parser)
    finish_verb(parser, _reassign)


async def _reassign(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    check_usage(options)
    from tidelog.cli.describing import chosen_partitions
    from tidelog.client import Admin

    admin = Admin(cluster, config, runtime)
    named: Wanted = {}
    if options.file is not None:
        named = _read(options.file)
    elif options.wanted:
        partitions = await chosen_partitions(cluster, config, runtime, options.wanted)
        named = spread(partitions, options.to) if options.to else dict.fromkeys(partitions)
    if options.list:
        _show(await admin.list_reassignments(list(named) or None), OutputFormat(options.format))
        return EXIT_OK
    if options.cancel:
        moving = await admin.list_reassignments(list(named) or None)
        named = {each.topic_partition: None for each in moving}
    return await _move(admin, named, options)


def check_usage(options: argparse.Namespace) -> None:
    """Raise WrongUsage unless the options say one thing."""
    is_looking = options.list or options.cancel
    if options.file is not None and (options.wanted or options.to):
        raise WrongUsage("--file says everything that -t and --to would")
    if is_looking and options.to:
        raise WrongUsage("--to does not go with --list or --cancel")
    if not is_looking and options.file is None and not (options.wanted and options.to):
        raise WrongUsage("what shall move where? -t TOPIC[:PARTITION] --to ID,ID,... or --file FILE says it")


def _read(path: Path) -> Wanted:
    try:
        return parse_file(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUsage(f"--file {path}: {error.strerror}") from None
    except ValueError as error:
        raise WrongUsage(f"--file {path}: {error}") from None


async def _move(admin: Admin, wanted: Wanted, options: argparse.Namespace) -> int:
    exit_code = EXIT_OK
    accepted = []
    for each, result in sorted((await admin.alter_reassignments(wanted)).items() if wanted else ()):
        if result.is_ok:
            to = wanted[each]
            accepted.append(each)
            sys.stdout.write(f"cancelled {each}\n" if to is None else f"moving {each} to {','.join(map(str, to))}\n")
        else:
            exit_code = EXIT_FAILED
            reason = f"{result.code.name}: {result.message}" if result.message else result.code.name
            sys.stderr.write(f"tidelog topics: {each}: {reason}\n")
    sys.stdout.flush()
    if options.wait and accepted:
        await _wait(admin, accepted, is_quiet=options.quiet or not sys.stderr.isatty())
        sys.stdout.write(f"done: {len(accepted)} partition(s)\n")
    return exit_code


async def _wait(admin: Admin, partitions: Sequence[TopicPartition], *, is_quiet: bool) -> None:
    """Return when none of these is moving any more; Ctrl-C leaves them moving."""
    import asyncio

    while moving := await admin.list_reassignments(partitions):
        if not is_quiet:
            sys.stderr.write(f"{_ERASE}{len(partitions) - len(moving)} of {len(partitions)} partitions moved")
            sys.stderr.flush()
        await asyncio.sleep(LOOK_AGAIN_S)
    if not is_quiet:
        sys.stderr.write(_ERASE)


def _show(moving: Sequence[Reassignment], output_format: OutputFormat) -> None:
    rows: list[Row] = [
        {
            "topic": each.topic_partition.topic,
            "partition": each.topic_partition.index,
            "replicas": each.replicas,
            "adding": each.adding,
            "removing": each.removing,
        }
        for each in sorted(moving, key=lambda each: each.topic_partition)
    ]
    write_rows(sys.stdout, output_format, COLUMNS, rows)

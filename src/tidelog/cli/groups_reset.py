"""`tidelog groups reset`: move a group that has no members to other offsets."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, checked, finish_verb, whole_number
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.groups_topics import TOPIC_METAVAR, parse_topic_partitions
from tidelog.cli.output import OutputFormat, Row, write_rows
from tidelog.cli.reset_plan import (
    Edge,
    Known,
    Move,
    ShiftBy,
    Target,
    ToListed,
    ToOffset,
    ToTime,
    parse_datetime,
    parse_duration_ms,
    planned,
    read_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.client import Admin, Cluster, Committed, ConsumerConfig
    from tidelog.model import Offset, TopicPartition
    from tidelog.runtime import Runtime

COLUMNS: Final = ("group", "topic", "partition", "current_offset", "new_offset", "error")
_OFFSET: Final = whole_number(low=0, high=2**63 - 1, what="an offset")
_SHIFT: Final = whole_number(low=-(2**63), high=2**63 - 1, what="a number of records")

_EXAMPLES: Final = """\
examples:
  tidelog groups reset billing --topic orders --to-earliest                  show what would happen
  tidelog groups reset billing --topic orders --to-earliest --execute        read all again
  tidelog groups reset billing --all-topics --to-datetime 2026-01-31T13:00:00 --execute
  tidelog groups reset billing --topic orders:0,3 --shift-by -100 --execute  the last hundred again
  tidelog groups reset billing --all-topics --by-duration PT2H --execute     the last two hours again
  tidelog groups reset billing --all-topics --to-current --export > saved.csv
  tidelog groups reset billing --from-file saved.csv --execute               back to what was saved

the group must have no members: those hold their positions in memory and would commit over yours
"""


def add_reset(parser: argparse.ArgumentParser) -> None:
    """Declare `tidelog groups reset`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("group", metavar="GROUP")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-t", "--topic", dest="wanted", action="append", default=[], type=checked(parse_topic_partitions),
        metavar=TOPIC_METAVAR, help="which topic, or which of its partitions; may be repeated",
    )  # fmt: skip
    where.add_argument("--all-topics", action="store_true", help="all topics the group has committed to")
    _add_targets(parser.add_mutually_exclusive_group(required=True))
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--dry-run", action="store_true", help="only show the plan (default)")
    action.add_argument("--execute", action="store_true", help="carry it out")
    action.add_argument("--export", action="store_true", help="only write the plan as CSV, for --from-file")
    add_format_argument(parser)
    finish_verb(parser, _reset)


def _add_targets(targets: argparse._MutuallyExclusiveGroup) -> None:
    targets.add_argument("--to-earliest", action="store_true", help="the beginning of each log")
    targets.add_argument("--to-latest", action="store_true", help="the end of each log")
    targets.add_argument("--to-current", action="store_true", help="where it stands; the end where it never was")
    targets.add_argument("--to-offset", type=_OFFSET, metavar="OFFSET", help="this offset in each partition")
    targets.add_argument("--shift-by", type=_SHIFT, metavar="N", help="N records on, or with -N back")
    targets.add_argument(
        "--to-datetime", type=checked(parse_datetime), metavar="TIME",
        help="the first record since then: YYYY-MM-DDTHH:MM:SS[.sss][+HH:MM], UTC without a zone",
    )  # fmt: skip
    targets.add_argument(
        "--by-duration", type=checked(parse_duration_ms), metavar="DURATION",
        help="the first record that is no older: PnDTnHnMnS, or 7d, 12h, 90m",
    )  # fmt: skip
    targets.add_argument("--from-file", type=Path, metavar="FILE", help="lines topic,partition,offset")


def target_of(options: argparse.Namespace, now_ms: int) -> Target:
    """What the options want. Raises ValueError or OSError for a file that is no plan."""
    if options.from_file is not None:
        with options.from_file.open(encoding="utf-8", newline="") as lines:
            return ToListed(read_offsets(lines))
    if options.to_offset is not None:
        return ToOffset(options.to_offset)
    if options.shift_by is not None:
        return ShiftBy(options.shift_by)
    if options.to_datetime is not None:
        return ToTime(options.to_datetime)
    if options.by_duration is not None:
        return ToTime(now_ms - options.by_duration)
    if options.to_current:
        return Edge.CURRENT
    return Edge.EARLIEST if options.to_earliest else Edge.LATEST


async def _reset(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin

    try:
        target = target_of(options, runtime.clock.wall_ms())
    except (ValueError, OSError) as error:
        raise WrongUsage(f"--from-file: {error}") from None
    if not (options.wanted or options.all_topics or isinstance(target, ToListed)):
        raise WrongUsage("which topics? --topic names some, --all-topics means all the group has committed to")
    admin = Admin(cluster, config, runtime)
    await _refuse_if_active(admin, options.group)
    committed = await _committed(admin, options.group)
    keys = await _partitions(options, target, committed, (cluster, config, runtime))
    known = await _known(keys, target, committed, (cluster, config, runtime))
    moves = _moves(target, known)
    for warning in [move.warning for move in moves.values() if move.warning is not None]:
        sys.stderr.write(f"tidelog groups: warning: {warning}\n")
    if options.export:
        csv.writer(sys.stdout, lineterminator="\n").writerows((*key, moves[key].offset) for key in sorted(moves))
        return EXIT_OK
    errors = await _carry_out(admin, options.group, moves) if options.execute else {}
    _show(options, known, moves, errors)
    return EXIT_FAILED if errors else EXIT_OK


async def _refuse_if_active(admin: Admin, group: str) -> None:
    from tidelog.model import ErrorCode

    found = (await admin.groups.describe_groups([group]))[group]
    if isinstance(found, ErrorCode):
        if found is not ErrorCode.GROUP_ID_NOT_FOUND:  # one that is not there yet may be given offsets to start from
            raise CommandFailed(f"group {group!r}: {found.name}")
    elif found.members:
        count = len(found.members)
        raise CommandFailed(
            f"group {group!r} is active ({found.state}, {count} member{'s' if count > 1 else ''}): stop its members first"
        )


async def _committed(admin: Admin, group: str) -> dict[TopicPartition, Committed]:
    from tidelog.model import ErrorCode

    found = (await admin.groups.committed_offsets([group]))[group]
    if not isinstance(found, ErrorCode):
        return found
    if found is ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    raise CommandFailed(f"group {group!r}: {found.name}")


async def _partitions(
    options: argparse.Namespace,
    target: Target,
    committed: Mapping[TopicPartition, Committed],
    connected: tuple[Cluster, ConsumerConfig, Runtime],
) -> list[TopicPartition]:
    """The partitions that are meant, all of which must exist. Raises CommandFailed."""
    from tidelog.cli.describing import chosen_partitions
    from tidelog.cli.partition_names import Wanted

    if options.wanted:
        found = await chosen_partitions(*connected, [each for some in options.wanted for each in some])
        return [key for key in found if not isinstance(target, ToListed) or key in target.offsets]
    listed = target.offsets if isinstance(target, ToListed) else committed
    if not listed:
        raise CommandFailed(f"group {options.group!r} has committed nothing; name topics with --topic")
    return await chosen_partitions(*connected, [Wanted(key.topic, key.index) for key in sorted(listed)])


async def _known(
    keys: Sequence[TopicPartition],
    target: Target,
    committed: Mapping[TopicPartition, Committed],
    connected: tuple[Cluster, ConsumerConfig, Runtime],
) -> dict[TopicPartition, Known]:
    from tidelog.client import Consumer

    async with Consumer(*connected) as consumer:
        starts, ends = await consumer.beginning_offsets(keys), await consumer.end_offsets(keys)
        times: Mapping[TopicPartition, Offset | None] = {}
        if isinstance(target, ToTime):
            found = await consumer.offsets_for_times(dict.fromkeys(keys, max(target.timestamp_ms, 0)))
            times = {key: None if at is None else at.offset for key, at in found.items()}
    current = {key: committed[key].offset for key in keys if key in committed}
    return {key: Known(starts[key], ends[key], current.get(key), times.get(key)) for key in keys}


def _moves(target: Target, known: Mapping[TopicPartition, Known]) -> dict[TopicPartition, Move]:
    try:
        return {key: planned(target, key, each) for key, each in known.items()}
    except ValueError as error:
        raise CommandFailed(str(error)) from None


async def _carry_out(admin: Admin, group: str, moves: Mapping[TopicPartition, Move]) -> dict[TopicPartition, str]:
    """Commit the new offsets; the partitions where that failed, with the reason."""
    from tidelog.client import Committed
    from tidelog.model import ErrorCode

    results = await admin.groups.alter_offsets(group, {key: Committed(move.offset) for key, move in moves.items()})
    if ErrorCode.UNKNOWN_MEMBER_ID in results.values():
        raise CommandFailed(f"group {group!r} has become active meanwhile: stop its members first")
    return {key: code.name for key, code in results.items() if code is not ErrorCode.NONE}


def _show(
    options: argparse.Namespace,
    known: Mapping[TopicPartition, Known],
    moves: Mapping[TopicPartition, Move],
    errors: Mapping[TopicPartition, str],
) -> None:
    rows: list[Row] = [
        {
            "group": options.group,
            "topic": key.topic,
            "partition": key.index,
            "current_offset": known[key].current,
            "new_offset": moves[key].offset,
            "error": errors.get(key),
        }
        for key in sorted(moves)
    ]
    write_rows(sys.stdout, OutputFormat(options.format), COLUMNS if errors else COLUMNS[:-1], rows)
    if not options.execute:
        sys.stderr.write("tidelog groups: nothing was changed; --execute carries it out\n")

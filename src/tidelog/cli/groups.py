"""List, describe, move and delete consumer groups, and find the broker that looks after one."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, checked, finish_verb
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed
from tidelog.cli.groups_reset import add_reset
from tidelog.cli.groups_topics import TOPIC_METAVAR, parse_topic_partitions
from tidelog.cli.output import OutputFormat, Row, write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.cli.partition_names import Wanted
    from tidelog.client import Admin, Cluster, ConsumerConfig
    from tidelog.model import ErrorCode
    from tidelog.runtime import Runtime

OFFSETS_TOPIC: Final = "__consumer_offsets"
LIST_COLUMNS: Final = ("group", "type", "state", "protocol_type", "coordinator")

_EXAMPLES: Final = """\
examples:
  tidelog groups list --state stable,empty
  tidelog groups describe billing                             offsets and lag
  tidelog groups describe billing --members --verbose         who has what
  tidelog groups describe --all --state --format json
  tidelog groups reset billing --topic orders --to-earliest   show the plan; --execute carries it out
  tidelog groups delete billing
  tidelog groups delete billing --topic orders:0,1            forget only these offsets
  tidelog groups locate billing
"""
_ADVICE: Final = {
    "NON_EMPTY_GROUP": "it has members; stop them first",
    "GROUP_ID_NOT_FOUND": "there is no such group",
    "GROUP_SUBSCRIBED_TO_TOPIC": "a member reads this topic; stop it first",
    "UNKNOWN_TOPIC_OR_PARTITION": "nothing is committed there",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog groups` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_list(verbs.add_parser("list", help="name all groups", epilog=_EXAMPLES))
    _add_describe(verbs.add_parser("describe", help="show offsets and lag, members, or state", epilog=_EXAMPLES))
    add_reset(verbs.add_parser("reset", help="move the offsets of a group that has no members"))
    _add_delete(verbs.add_parser("delete", help="delete groups, or what they committed", epilog=_EXAMPLES))

    locating = verbs.add_parser("locate", help="show which broker looks after a group, and why", epilog=_EXAMPLES)
    locating.add_argument("groups", nargs="+", metavar="GROUP")
    add_format_argument(locating)
    finish_verb(locating, _locate)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", nargs="?", type=_words, const=(), default=(), metavar="STATE,...",
        help="only those: empty, stable, preparingrebalance, completingrebalance, assigning, reconciling",
    )  # fmt: skip
    parser.add_argument(
        "--type", nargs="?", type=_words, const=(), default=(), metavar="TYPE,...", help="only those: classic, consumer"
    )
    add_format_argument(parser)
    finish_verb(parser, _list)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--all", action="store_true", help="all groups there are")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--offsets", action="store_true", help="where it stands in each partition (default)")
    shown.add_argument("--members", action="store_true", help="who is in it")
    shown.add_argument("--state", action="store_true", help="its state, coordinator and assignor")
    parser.add_argument("-v", "--verbose", action="store_true", help="also epochs and assignments")
    add_format_argument(parser)
    finish_verb(parser, _describe)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument(
        "-t", "--topic", dest="wanted", action="append", default=[], type=checked(parse_topic_partitions),
        metavar=TOPIC_METAVAR, help="only what was committed there; the group stays; may be repeated",
    )  # fmt: skip
    finish_verb(parser, _delete)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


async def _list(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin

    found = await Admin(cluster, config, runtime).groups.list_groups(states=options.state, kinds=options.type)
    rows: list[Row] = [
        {
            "group": group.group_id,
            "type": group.kind or None,
            "state": group.state or None,
            "protocol_type": group.protocol_type or None,
            "coordinator": group.coordinator,
        }
        for group in found
    ]
    write_rows(sys.stdout, OutputFormat(options.format), LIST_COLUMNS, rows)
    return EXIT_OK


async def _describe(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.groups_describing import GroupTables

    tables = GroupTables(cluster, config, runtime)
    names = await tables.names(options.groups, wants_all=options.all)
    if options.members:
        table = await tables.members(names, is_verbose=options.verbose)
    elif options.state:
        table = await tables.states(names, is_verbose=options.verbose)
    else:
        table = await tables.offsets(names, is_verbose=options.verbose)
    table.write(sys.stdout, OutputFormat(options.format))
    for note in table.notes:
        sys.stderr.write(f"tidelog groups: {note}\n")
    return EXIT_FAILED if table.has_failed else EXIT_OK


async def _delete(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.client import Admin
    from tidelog.model import ErrorCode

    admin = Admin(cluster, config, runtime)
    if options.wanted:
        wanted = [each for some in options.wanted for each in some]
        return max([await _forget(admin, group, wanted) for group in options.groups])
    results = await admin.groups.delete_groups(options.groups)
    for group, code in results.items():
        if code is ErrorCode.NONE:
            sys.stdout.write(f"deleted {group}\n")
    return _complain({group: code for group, code in results.items() if code is not ErrorCode.NONE})


async def _forget(admin: Admin, group: str, wanted: Sequence[Wanted]) -> int:
    """Delete what a group committed to some topics, whether they are still there or not."""
    from tidelog.model import ErrorCode, TopicPartition

    committed = (await admin.groups.committed_offsets([group]))[group]
    if isinstance(committed, ErrorCode):
        return _complain({group: committed})
    meant = {
        key: None
        for each in wanted
        for key in ([*committed] if each.index is None else [TopicPartition(each.topic, each.index)])
        if key.topic == each.topic
    }
    if not meant:
        raise CommandFailed(f"group {group!r} has committed nothing to {', '.join(map(str, wanted))}")
    results = await admin.groups.delete_offsets(group, meant)
    for key, code in sorted(results.items()):
        if code is ErrorCode.NONE:
            sys.stdout.write(f"deleted the offset of {group} in {key.topic}:{key.index}\n")
    return _complain(
        {f"{group}: {key.topic}:{key.index}": code for key, code in results.items() if code is not ErrorCode.NONE}
    )


def _complain(codes: Mapping[str, ErrorCode]) -> int:
    """Say on stderr what could not be done, and return the exit code."""
    for what, code in codes.items():
        advice = _ADVICE.get(code.name)
        sys.stderr.write(f"tidelog groups: {what}: {code.name}{f': {advice}' if advice else ''}\n")
    return EXIT_FAILED if codes else EXIT_OK


async def _locate(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.locating import COLUMNS, located_rows
    from tidelog.client import Admin
    from tidelog.model import ErrorCode

    # Asking creates the topic where nobody has asked before, so this comes first.
    found = await Admin(cluster, config, runtime).groups.find_coordinators(options.groups)
    rows = await located_rows((cluster, config, runtime), OFFSETS_TOPIC, "group", found)
    write_rows(sys.stdout, OutputFormat(options.format), ("group", *COLUMNS), rows)
    return _complain({group: code for group, code in found.items() if isinstance(code, ErrorCode)})

"""List and describe transactions, find those that hang or keep readers waiting, and end them.

Who reads with isolation.level=read_committed gets no further than the first transaction that is still open.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, finish_verb, whole_number
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, WrongUsage
from tidelog.cli.output import OutputFormat, write_rows
from tidelog.cli.transactions_ending import add_abort, add_commit
from tidelog.cli.transactions_prepared import add_abort_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.cli.output import Table
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.runtime import Runtime

TRANSACTIONS_TOPIC: Final = "__transaction_state"
_PARTITION: Final = whole_number(low=0, high=2**31 - 1, what="a partition")
_BROKER: Final = whole_number(low=0, high=2**31 - 1, what="a broker")
_PRODUCER_ID: Final = whole_number(low=0, high=2**63 - 1, what="a producer id")
_DURATION_MS: Final = whole_number(low=0, high=2**63 - 1, what="a number of milliseconds")
_MINUTES: Final = whole_number(low=0, high=2**31 - 1, what="a number of minutes")
_MINUTES_DEFAULT: Final = 15
_MS_PER_MINUTE: Final = 60_000

_EXAMPLES: Final = """\
examples:
  tidelog transactions list --state ongoing
  tidelog transactions list --holding                           whom readers of committed records wait for, everywhere
  tidelog transactions describe --transactional-id payments-1   its partitions, and which it holds back since when
  tidelog transactions describe --topic orders --partition 3    who holds this partition back, and how much waits behind it
  tidelog transactions locate --transactional-id payments-1     its coordinator, and its partition of __transaction_state
  tidelog transactions find-hanging --topic orders              what no coordinator will ever end
  tidelog transactions abort --topic orders --partition 3 --start-offset 1200    end one that hangs
  tidelog transactions abort --transactional-id payments-1      abort what it has open, and fence its producer
  tidelog transactions commit --transactional-id payments-1 --producer-id 4000 --producer-epoch 7    one that was prepared
  tidelog transactions abort-prepared --prefix orders-          all that a query of Spark has left, which is given up
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog transactions` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_list(verbs.add_parser("list", help="name all transactional ids, or what readers wait for", epilog=_EXAMPLES))
    _add_describe(verbs.add_parser("describe", help="show an id, or who holds a partition back", epilog=_EXAMPLES))
    _add_producers(verbs.add_parser("describe-producers", help="show who writes to a partition", epilog=_EXAMPLES))
    _add_find(verbs.add_parser("find-hanging", help="find what no coordinator will ever end", epilog=_EXAMPLES))
    _add_locate(verbs.add_parser("locate", help="show which broker looks after an id, and why", epilog=_EXAMPLES))
    add_abort(verbs.add_parser("abort", help="abort a transaction, be it alive or hanging", epilog=_EXAMPLES))
    add_commit(verbs.add_parser("commit", help="commit a transaction that was prepared", epilog=_EXAMPLES))
    add_abort_prepared(
        verbs.add_parser("abort-prepared", help="abort all that were prepared under a prefix", epilog=_EXAMPLES)
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=_words, default=(), metavar="STATE,...",
        help="only those: empty, ongoing, preparecommit, prepareabort, completecommit, completeabort",
    )  # fmt: skip
    parser.add_argument(
        "--producer-id",
        type=_PRODUCER_ID,
        action="append",
        default=[],
        metavar="ID",
        help="only of this producer; may be repeated",
    )
    parser.add_argument(
        "--duration-filter",
        type=_DURATION_MS,
        metavar="MS",
        help="only with a transaction that has been open for longer",
    )
    parser.add_argument(
        "--transactional-id-pattern", metavar="REGEX", help="only ids that an RE2 expression matches as a whole"
    )
    parser.add_argument("--holding", action="store_true", help="the partitions that are held back instead, and by whom")
    add_format_argument(parser)
    finish_verb(parser, _list)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--transactional-id", action="append", metavar="ID", help="which; may be repeated")
    what.add_argument(
        "-t", "--topic", metavar="TOPIC", help="how far readers of committed records get there, and why not further"
    )
    parser.add_argument("-p", "--partition", type=_PARTITION, help="only this partition of the topic (default: all)")
    add_format_argument(parser)
    finish_verb(parser, _describe)


def _add_producers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-t", "--topic", required=True, metavar="TOPIC")
    parser.add_argument("-p", "--partition", required=True, type=_PARTITION)
    add_format_argument(parser)
    finish_verb(parser, _producers)


def _add_find(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-t", "--topic", metavar="TOPIC", help="look only there (default: everywhere)")
    parser.add_argument("-p", "--partition", type=_PARTITION, help="only in this partition of the topic")
    parser.add_argument(
        "--broker-id", type=_BROKER, metavar="ID", help="only in partitions that this broker has a replica of"
    )
    parser.add_argument(
        "--max-transaction-timeout", type=_MINUTES, default=_MINUTES_DEFAULT, metavar="MINUTES",
        help=f"leave out what was written to since then (default: {_MINUTES_DEFAULT}, the default of transaction.max.timeout.ms)",
    )  # fmt: skip
    add_format_argument(parser)
    finish_verb(parser, _find_hanging)


def _add_locate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--transactional-id", action="append", required=True, metavar="ID", help="which; may be repeated"
    )
    add_format_argument(parser)
    finish_verb(parser, _locate)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


async def _list(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.transactions_tables import TransactionTables
    from tidelog.client import Admin

    tables = TransactionTables(cluster, config, runtime)
    if options.holding:
        return _show(options, [await tables.held(await tables.partitions(None, None, None), only_held=True)])
    found = await Admin(cluster, config, runtime).transactions.list(
        states=options.state,
        producer_ids=options.producer_id,
        duration_ms=options.duration_filter,
        pattern=options.transactional_id_pattern,
    )
    return _show(options, [tables.listed(found)])


async def _describe(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.transactions_tables import TransactionTables

    tables = TransactionTables(cluster, config, runtime)
    if options.topic is not None:
        partitions = await tables.partitions(options.topic, options.partition, None)
        return _show(options, [await tables.held(partitions, only_held=False)])
    if options.partition is not None:
        raise WrongUsage("--partition goes with --topic")
    return _show(options, await tables.described(options.transactional_id))


async def _producers(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.transactions_tables import TransactionTables

    tables = TransactionTables(cluster, config, runtime)
    partitions = await tables.partitions(options.topic, options.partition, None)
    return _show(options, [await tables.producers(partitions)])


async def _find_hanging(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.transactions_tables import TransactionTables

    if options.partition is not None and options.topic is None:
        raise WrongUsage("--partition goes with --topic")
    tables = TransactionTables(cluster, config, runtime)
    partitions = await tables.partitions(options.topic, options.partition, options.broker_id)
    found = await tables.hanging(partitions, max_timeout_ms=options.max_transaction_timeout * _MS_PER_MINUTE)
    code = _show(options, [found])
    for row in found.rows[:1]:
        where = f"--topic {row['topic']} --partition {row['partition']} --start-offset {row['start_offset']}"
        sys.stderr.write(f"tidelog transactions: this ends one: tidelog transactions abort {where}\n")
    return code


async def _locate(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    from tidelog.cli.locating import COLUMNS, located_rows
    from tidelog.client import Admin
    from tidelog.model import ErrorCode

    # Asking creates the topic where nobody has asked before, so this comes first.
    found = await Admin(cluster, config, runtime).transactions.find_coordinators(options.transactional_id)
    rows = await located_rows((cluster, config, runtime), TRANSACTIONS_TOPIC, "transactional_id", found)
    write_rows(sys.stdout, OutputFormat(options.format), ("transactional_id", *COLUMNS), rows)
    missing = [(name, code) for name, code in found.items() if isinstance(code, ErrorCode)]
    for name, code in missing:
        sys.stderr.write(f"tidelog transactions: {name}: {code.name}\n")
    return EXIT_FAILED if missing else EXIT_OK


def _show(options: argparse.Namespace, tables: Sequence[Table]) -> int:
    """Write tables that have rows, as JSON the first only, which has all fields; what there is to say beside them goes to stderr."""
    output_format = OutputFormat(options.format)
    wanted = tables[:1] if output_format is OutputFormat.JSON else [table for table in tables if table.rows]
    for number, table in enumerate(wanted):
        if number:
            sys.stdout.write("\n")
        table.write(sys.stdout, output_format)
    for note in [note for table in tables for note in table.notes]:
        sys.stderr.write(f"tidelog transactions: {note}\n")
    return EXIT_FAILED if any(table.has_failed for table in tables) else EXIT_OK

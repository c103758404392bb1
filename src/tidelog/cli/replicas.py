"""Show every replica: who leads, who follows, how far each is, and who is in sync."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.arguments import add_format_argument, finish_verb
from tidelog.cli.failure import EXIT_OK
from tidelog.cli.output import OutputFormat, Row, is_coloured, render_table, shown, write_rows
from tidelog.cli.partition_names import add_partitions_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.client import Admin, Cluster, ConsumerConfig
    from tidelog.model import TopicPartition
    from tidelog.runtime import Runtime

BETWEEN_LOOKS_S: Final = 1.0
#: Headings where Kafka's names are too long for the terminal.
_SHORT: Final = {
    "partition": "part",
    "leader_epoch": "epoch",
    "log_end_offset": "leo",
    "high_watermark": "hw",
    "last_stable_offset": "lso",
    "last_caught_up": "caught_up",
}
_FIRST_TO_GO: Final = ("last_stable_offset", "last_caught_up", "leader_epoch")
_HOME: Final = "\x1b[H\x1b[J"  # to the first line, and erase what is below

_EXAMPLES: Final = """\
examples:
  tidelog replicas                            every replica of every partition
  tidelog replicas -t orders --watch          see a follower catch up, or a leader change
  tidelog replicas --format json | jq '.[] | select(.in_isr | not)'

LAG is how many offsets a replica is behind its leader; LAST-CAUGHT-UP is when the leader last saw it have everything. A broker
that does not answer is shown with what its leader last heard of it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog replicas`."""
    parser.epilog = _EXAMPLES
    add_partitions_argument(parser, "only these")
    parser.add_argument("-w", "--watch", action="store_true", help="look again every second, until Ctrl-C")
    add_format_argument(parser)
    finish_verb(parser, _replicas)


async def _replicas(options: argparse.Namespace, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> int:
    import asyncio

    from tidelog.cli.describing import chosen_partitions
    from tidelog.client import Admin
    from tidelog.client.errors import ClientError

    admin = Admin(cluster, config, runtime)
    output_format = OutputFormat(options.format)
    while True:
        try:
            partitions = await chosen_partitions(cluster, config, runtime, options.wanted) if options.wanted else None
            rows = await _rows(admin, runtime, partitions)
        except ClientError as error:
            if not options.watch:
                raise
            sys.stderr.write(f"tidelog: {error}\n")  # Whoever watches wants to see it come back.
        else:
            _write(sys.stdout, output_format, rows, is_live=options.watch and sys.stdout.isatty())
        if not options.watch:
            return EXIT_OK
        await asyncio.sleep(BETWEEN_LOOKS_S)


async def _rows(admin: Admin, runtime: Runtime, partitions: list[TopicPartition] | None) -> list[Row]:
    from tidelog.cli.replica_table import replica_rows

    answers = await admin.describe_replicas(partitions)
    return replica_rows(answers, now_ms=runtime.clock.wall_ms())


def _write(out: TextIO, output_format: OutputFormat, rows: list[Row], *, is_live: bool) -> None:
    from tidelog.cli.replica_table import COLUMNS

    if not is_live:
        write_rows(out, output_format, COLUMNS, rows)
    elif output_format is OutputFormat.JSON:
        text = io.StringIO()
        write_rows(text, output_format, COLUMNS, rows)
        out.write(_HOME + text.getvalue())
    else:
        terminal = shutil.get_terminal_size()
        out.write(_HOME + fitting(live_table(rows, terminal.columns, in_colour=is_coloured(out)), terminal.lines))
    out.flush()


def live_table(rows: list[Row], width: int, *, in_colour: bool) -> str:
    """The table as wide as a terminal is: with Kafka's names, else with the letters people use for them, else without what matters least."""
    from tidelog.cli.replica_table import COLUMNS

    columns = list(COLUMNS)
    for names in ({}, _SHORT):
        table = _table(rows, columns, names, in_colour=in_colour)
        if _is_within(_table(rows, columns, names, in_colour=False), width):
            return table
    for column in _FIRST_TO_GO:
        columns.remove(column)
        if _is_within(_table(rows, columns, _SHORT, in_colour=False), width):
            break
    return _table(rows, columns, _SHORT, in_colour=in_colour)


def _table(rows: list[Row], columns: list[str], names: Mapping[str, str], *, in_colour: bool) -> str:
    cells = [[shown(row.get(column)) for column in columns] for row in rows]
    return render_table([names.get(column, column) for column in columns], cells, in_colour=in_colour)


def _is_within(table: str, width: int) -> bool:
    return all(len(line) <= width for line in table.splitlines())


def fitting(table: str, height: int) -> str:
    """As much of a table as a terminal shows, and how much that leaves out."""
    lines = table.splitlines(keepends=True)
    if len(lines) < height:
        return table
    kept = max(1, height - 2)
    return "".join(lines[:kept]) + f"... {len(lines) - kept} more; -t TOPIC chooses\n"

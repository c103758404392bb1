"""Print the records of a topic, all partitions or one, from wherever you like.

Without -e or -c it goes on until Ctrl-C. Without -g no group is joined and nothing is committed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import (
    add_connection_arguments,
    add_quiet_argument,
    checked,
    client_properties,
    escaped_bytes,
    whole_number,
)
from tidelog.cli.failure import EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.positions import POSITION_HELP, At, AtTime, BeforeEnd, Edge, Position, Range, parse_range
from tidelog.cli.shown_record import FORMAT_HELP, RecordFormat, ShownRecord, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.client import Consumer
    from tidelog.model import Offset, TopicPartition
    from tidelog.runtime import Runtime

PARTITIONS_NAMED: Final = 5  # in one sentence

_EXAMPLES: Final = rf"""{FORMAT_HELP}
examples:
  tidelog consume -t greetings -e                            everything there is, then exit
  tidelog consume -t greetings -o end                        what comes from now on
  tidelog consume -t orders -o -10 -e                        the last ten of each partition
  tidelog consume -t orders -p 3 -o 1200 -c 1 -J             one record, as JSON
  tidelog consume -t orders -o s@1700000000000 -o e@1700003600000
  tidelog consume -t orders -f '%t-%p@%o %k=%s\n' -e
  tidelog consume -t orders -g billing                       share with the others of the group, and commit
  tidelog consume -t __consumer_offsets -p 19 --formatter offsets -e
  tidelog consume -t __transaction_state --formatter transactions -e
  tidelog consume -t orders -X isolation.level=read_committed -e    only what was committed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog consume`."""
    parser.epilog = _EXAMPLES
    add_connection_arguments(parser)
    parser.add_argument("-t", "--topic", required=True, metavar="TOPIC", help="which topic")
    parser.add_argument(
        "-p", "--partition", type=whole_number(low=0, high=2**31 - 1, what="a partition"),
        help="only this partition (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "-g", "--group", metavar="GROUP", help="read as a member of this group, and commit what was printed"
    )
    parser.add_argument("-o", "--offset", action="append", default=[], metavar="WHERE", help=POSITION_HELP)
    parser.add_argument("-e", "--exit", action="store_true", help="exit at the end of the log as it is now")
    parser.add_argument(
        "-c", "--count", type=whole_number(low=1, high=2**63 - 1, what="a count"), help="exit after so many records"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("-f", "--record-format", metavar="FORMAT", help=r"how to print a record (default: %%s\n)")
    shown.add_argument(
        "-J", "--json", action="store_true", help="one JSON object per line, which `tidelog produce -J` reads"
    )
    parser.add_argument(
        "--formatter", choices=("offsets", "group-metadata", "transactions"),
        help="print records of __consumer_offsets or __transaction_state, one line each, and no others; with -J as the JSON"
        " of Kafka 4's formatters",
    )  # fmt: skip
    parser.add_argument(
        "-K",
        "--key-delimiter",
        type=checked(escaped_bytes),
        metavar="DELIM",
        help="print the key and this before the value",
    )
    parser.add_argument(
        "-D", "--delimiter", type=checked(escaped_bytes), default=b"\n", metavar="DELIM",
        help=r"print this after each record (default: \n)",
    )  # fmt: skip
    parser.add_argument("-Z", "--null", action="store_true", help="print null keys and values as NULL")
    add_quiet_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print records and return the exit code."""
    try:
        wanted = parse_range(options.offset)
        show = printer(options)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    from tidelog.cli.connecting import run_client

    if options.group is None:
        return run_client(lambda runtime: _consume(options, wanted, show, runtime))
    from tidelog.cli.consume_group import check, consume_as_member

    check(options, wanted)
    return run_client(lambda runtime: consume_as_member(options, wanted, show, runtime))


def printer(options: argparse.Namespace) -> Callable[[ShownRecord], bytes]:
    """How the options want a record to be printed. Raises ValueError."""
    if options.formatter is not None:
        from tidelog.cli.internal_records import formatter

        if options.record_format is not None:
            raise ValueError("--formatter says what is printed of a record, and so does -f: give one of them")
        return formatter(options.formatter, is_json=options.json)
    if options.json:
        return to_json
    null = b"NULL" if options.null else b""
    if options.record_format is not None:
        return RecordFormat.parse(options.record_format, null=null)
    value = RecordFormat.parse("%s", null=null)
    if options.key_delimiter is None:
        return lambda record: value(record) + options.delimiter
    key = RecordFormat.parse("%k", null=null)
    return lambda record: key(record) + options.key_delimiter + value(record) + options.delimiter


async def _consume(
    options: argparse.Namespace, wanted: Range, show: Callable[[ShownRecord], bytes], runtime: Runtime
) -> int:
    from tidelog.cli.connecting import PATIENCE
    from tidelog.cli.consume_printing import Printing
    from tidelog.cli.describing import described_topic, partitions_of
    from tidelog.cli.progress import progress
    from tidelog.client import Cluster, Consumer, ConsumerConfig

    more = {"default.api.timeout.ms": PATIENCE["default.api.timeout.ms"], "auto.offset.reset": "none"}
    properties = client_properties(options.bootstrap_server, options.properties, more.items())
    config = ConsumerConfig.from_properties(properties)
    async with Cluster(config, runtime) as cluster, Consumer(cluster, config, runtime) as consumer:
        topic = await described_topic(cluster, config, runtime, options.topic)
        partitions = partitions_of(topic, options.partition)
        starts = await _starts(consumer, partitions, wanted.start)
        ends = await _ends(consumer, partitions, wanted, is_bounded=options.exit)
        consumer.assign(list(starts))
        for topic_partition, offset in starts.items():
            consumer.seek(topic_partition, offset)
        # On a terminal that also shows the records, the records are the progress.
        shown = progress("read", runtime.clock, is_wanted=not options.quiet and not sys.stdout.isatty())
        printing = Printing(show=show, progress=shown, count_max=options.count)
        try:
            while not printing.is_done and await _drop_finished(consumer, ends):
                await printing.print_some(consumer, ends)
        finally:
            shown.end()
    return EXIT_OK


async def _starts(
    consumer: Consumer, partitions: Sequence[TopicPartition], start: Position
) -> dict[TopicPartition, Offset]:
    """The offset to start at in each partition."""
    match start:
        case At():
            return await _starts_at(consumer, partitions, start.offset)
        case Edge.BEGINNING:
            return await consumer.beginning_offsets(partitions)
        case Edge.END:
            return await consumer.end_offsets(partitions)
        case BeforeEnd():
            first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
            return {each: max(first[each], end[each] - start.count) for each in partitions}
        case AtTime():
            return await _offsets_at(consumer, partitions, start)


async def _starts_at(
    consumer: Consumer, partitions: Sequence[TopicPartition], offset: Offset
) -> dict[TopicPartition, Offset]:
    """That offset in each partition that has it, or will have it next; others are named. Raises CommandFailed if none has."""
    first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    starts = {each: offset for each in partitions if first[each] <= offset <= end[each]}
    missing = [
        f"{each} has no offset {offset}: it begins at {first[each]} and ends before {end[each]}"
        for each in partitions
        if each not in starts
    ]
    if not starts:
        raise CommandFailed(
            "; ".join(missing[:PARTITIONS_NAMED]) + ("; ..." if len(missing) > PARTITIONS_NAMED else "")
        )
    sys.stderr.writelines(f"tidelog consume: {sentence}, and is left out\n" for sentence in missing)
    return starts


async def _ends(
    consumer: Consumer, partitions: Sequence[TopicPartition], wanted: Range, *, is_bounded: bool
) -> dict[TopicPartition, Offset] | None:
    """The offset to stop before in each partition, or None to go on for ever."""
    if wanted.end is not None:
        return await _offsets_at(consumer, partitions, wanted.end)
    return await consumer.end_offsets(partitions) if is_bounded else None


async def _offsets_at(
    consumer: Consumer, partitions: Sequence[TopicPartition], time: AtTime
) -> dict[TopicPartition, Offset]:
    """The first offset at or after a time, or the end of the log as it is now."""
    end = await consumer.end_offsets(partitions)
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, time.timestamp_ms))
    return {each: end[each] if (at := found[each]) is None else at.offset for each in partitions}


async def _drop_finished(consumer: Consumer, ends: Mapping[TopicPartition, Offset] | None) -> bool:
    """Stop reading partitions that have reached their end; whether any are left."""
    if ends is None:
        return True
    left = [each for each in consumer.assignment if await consumer.position(each) < ends[each]]
    if len(left) < len(consumer.assignment):
        consumer.assign(left)
    return bool(left)

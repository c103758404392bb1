"""Print the records of a topic as a member of a group: partitions are shared with the others, and what was printed is committed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.cli.arguments import client_properties
from tidelog.cli.connecting import PATIENCE
from tidelog.cli.consume_printing import Printing
from tidelog.cli.describing import described_topic, partitions_of
from tidelog.cli.failure import EXIT_OK, WrongUsage
from tidelog.cli.positions import Edge, Range
from tidelog.cli.progress import progress
from tidelog.cli.shown_record import ShownRecord
from tidelog.client import Cluster, Consumer, ConsumerConfig
from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Runtime

_LEAVE_WITHIN_MS: Final = 5000
_RESETS: Final = {Edge.BEGINNING: "earliest", Edge.END: "latest"}


def check(options: argparse.Namespace, wanted: Range) -> None:
    """Refuse what makes no sense for a group. Raises WrongUsage."""
    if options.partition is not None:
        raise WrongUsage("-p: the members of a group share all partitions of a topic among themselves")
    if wanted.start not in _RESETS or wanted.end is not None:
        raise WrongUsage(
            "-o: a group goes on where it has committed; beginning or end says where it starts otherwise, "
            "and `tidelog groups reset` moves it"
        )


async def consume_as_member(
    options: argparse.Namespace, wanted: Range, show: Callable[[ShownRecord], bytes], runtime: Runtime
) -> int:
    """Join the group, print until told to stop, commit, leave."""
    reset = next(value for edge, value in _RESETS.items() if edge is wanted.start)
    more = {
        "default.api.timeout.ms": PATIENCE["default.api.timeout.ms"],
        "auto.offset.reset": reset,
        "group.id": options.group,
    }
    config = ConsumerConfig.from_properties(
        client_properties(options.bootstrap_server, options.properties, more.items())
    )
    async with Cluster(config, runtime) as cluster, Consumer(cluster, config, runtime) as consumer:
        topic = await described_topic(cluster, config, runtime, options.topic)
        ends = await consumer.end_offsets(partitions_of(topic, None)) if options.exit else None
        consumer.group.subscribe([topic.name])
        shown = progress("read", runtime.clock, is_wanted=not options.quiet and not sys.stdout.isatty())
        printing = Printing(show=show, progress=shown, count_max=options.count)
        try:
            while not printing.is_done and not await _is_at(consumer, ends):
                await printing.print_some(consumer)
        finally:
            shown.end()
            # Also after Ctrl-C: what was printed is done, and the next one shall not print it again.
            await consumer.close(timeout_ms=_LEAVE_WITHIN_MS)
    return EXIT_OK


async def _is_at(consumer: Consumer, ends: Mapping[TopicPartition, Offset] | None) -> bool:
    """Whether this member has partitions and has read them all to where they ended."""
    mine = consumer.assignment
    if ends is None or not mine:
        return False
    return all([await consumer.position(each) >= ends.get(each, 0) for each in mine])

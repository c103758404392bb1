"""The shop on a terminal: one page that is drawn over and over, or a line at a time for who reads it later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.hints import program
from tidelog.cli.output import paint, render_table

if TYPE_CHECKING:
    from tidelog.pipeline.demo.running import ShopPlan
    from tidelog.pipeline.demo.watching import QueryView, Snapshot

HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"

_OF: Final = re.compile(r" (\d+) of (\d+)\b")
_ROOM_FOR_HINTS: Final = 20  # lines

QUERY_COLUMNS: Final = ("query", "reads", "writes", "rows/s", "rows", "micro-batches", "last ms", "lag")
TOPIC_COLUMNS: Final = ("topic", "partitions", "in sync", "end offset")
BROKER_COLUMNS: Final = ("broker", "address", "leaders", "replicas")
REVENUE_COLUMNS: Final = ("window", "category", "orders", "revenue")


def page(snapshot: Snapshot, plan: ShopPlan, *, in_colour: bool, width: int, height: int) -> str:
    """As much of it as fits on a terminal, most important first; drawn over what stood there before."""
    sections = [
        _title(snapshot, plan),
        _table(QUERY_COLUMNS, [_query_cells(query) for query in snapshot.queries]),
        _table(TOPIC_COLUMNS, _topic_cells(snapshot)),
        _table(BROKER_COLUMNS, _broker_cells(snapshot)),
        _table(REVENUE_COLUMNS, _revenue_cells(snapshot)),
        list(snapshot.news),
    ]
    footer = _footer(snapshot, width=width, height=height)
    lines: list[str] = []
    for section in sections:
        if section and len(lines) + len(section) + 1 + len(footer) < height:
            lines += [*section, ""]
    lines = [line[:width] for line in [*lines, *footer]][: max(1, height - 1)]
    painted = [_painted(line, in_colour=in_colour) for line in lines]
    return HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in painted) + _REST


def line(snapshot: Snapshot) -> str:
    """All that matters on one line, for a log."""
    queries = "  ".join(
        f"{query.name} {query.rows_per_s:.0f} rows/s lag {'-' if query.lag is None else query.lag} "
        f"micro-batches {query.micro_batches}"
        for query in snapshot.queries
    )
    told = snapshot.cluster
    replicas, in_sync = (sum(getattr(topic, what) for topic in told.topics) for what in ("replicas", "in_sync"))
    return (
        f"{snapshot.elapsed_s:.0f} s  orders {snapshot.orders_per_s:.0f}/s  {queries}  "
        f"revenue rows {snapshot.revenue_rows}  brokers {len(told.brokers)}/{snapshot.brokers_wanted}  in sync {in_sync}/{replicas}"
        f"{'' if told.is_current else '  (the cluster does not answer)'}"
    )


def summary(snapshot: Snapshot) -> str:
    """What has been done, in the end."""
    read = {query.name: query for query in snapshot.queries}
    micro_batches = sum(query.micro_batches for query in read.values())
    return (
        f"{snapshot.orders_sent:,} orders sent, {next(iter(read.values())).rows:,} judged, {snapshot.revenue_rows:,} rows of revenue, "
        f"{micro_batches:,} micro-batches in {snapshot.elapsed_s:.0f} s"
    )


def _title(snapshot: Snapshot, plan: ShopPlan) -> list[str]:
    state = "" if snapshot.cluster.is_current else "   the cluster does not answer"
    again = f", started {snapshot.drivers_started} times" if snapshot.drivers_started > 1 else ""
    return [
        f"TIDELOG SHOP   {plan.broker_count} brokers   Spark {plan.master}{again}   commit mode {plan.commit_mode}   "
        f"{snapshot.elapsed_s:.0f} s{state}",
        f"orders in: {snapshot.orders_per_s:,.0f}/s, {snapshot.orders_sent:,} in all",
    ]


def _query_cells(query: QueryView) -> list[str]:
    return [
        query.name,
        query.reads,
        ", ".join(query.writes),
        f"{query.rows_per_s:,.0f}",
        f"{query.rows:,}",
        f"{query.micro_batches:,}",
        f"{query.micro_batch_ms:,.0f}",
        "-" if query.lag is None else f"{query.lag:,}",
    ]


def _topic_cells(snapshot: Snapshot) -> list[list[str]]:
    return [
        [topic.name, str(topic.partitions), f"{topic.in_sync} of {topic.replicas}", f"{topic.end_offset:,}"]
        for topic in snapshot.cluster.topics
    ]


def _broker_cells(snapshot: Snapshot) -> list[list[str]]:
    alive = {
        broker.broker_id: [str(broker.broker_id), broker.address, str(broker.leaders), str(broker.replicas)]
        for broker in snapshot.cluster.brokers
    }
    if not alive:
        return []
    return [
        alive.get(broker_id, [str(broker_id), "gone", "-", "-"]) for broker_id in range(1, snapshot.brokers_wanted + 1)
    ]


def _revenue_cells(snapshot: Snapshot) -> list[list[str]]:
    return [
        [row.window_start[11:19], row.category, f"{row.orders:,}", f"{row.cents / 100:,.2f}"]
        for row in reversed(snapshot.revenue)
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return render_table(columns, rows).splitlines() if rows else []


def _footer(snapshot: Snapshot, *, width: int, height: int) -> list[str]:
    """How to go on. A command that does not fit on its line is left out: half of one is of no use to anybody."""
    stops = "Ctrl-C stops everything."
    first = snapshot.cluster.brokers[0].address if snapshot.cluster.brokers else "127.0.0.1:9092"
    commands = [f"  {program()} {words} -b {first}" for words in ("groups describe shop-clean", "brokers kill 2")]
    fitting = [command for command in commands if len(command) <= width]
    return [f"{stops} In another terminal:", *fitting] if fitting and height >= _ROOM_FOR_HINTS else [stops]


def _painted(text: str, *, in_colour: bool) -> str:
    """Headings are bold, what is amiss is red."""
    if text.startswith(("TIDELOG", "QUERY", "TOPIC", "BROKER", "WINDOW")):
        return paint(text, "bold", wanted=in_colour)
    words = text.split()
    counted = _OF.search(text)  # a narrow terminal may have cut it
    is_out_of_sync = counted is not None and counted[1] != counted[2]
    return paint(text, "red", wanted=in_colour and (is_out_of_sync or "gone" in words))

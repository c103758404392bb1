"""What a person sees of the shop."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.cli.demo_panel import line, page, summary
from tidelog.pipeline.demo.running import ShopPlan
from tidelog.pipeline.demo.watching import BrokerView, QueryView, RevenueView, Snapshot, Told, TopicView

PLAN = ShopPlan(
    data=Path("/d"), broker_count=3, port=0, master="local[2]", commit_mode="batch", orders_per_second=500, seed=1
)
CLEAN = QueryView(
    name="shop-clean",
    reads="shop.orders",
    writes=("shop.cleaned", "shop.rejected"),
    rows=12_345,
    rows_per_s=498.2,
    micro_batches=27,
    micro_batch_ms=412,
    lag=250,
    watermark=None,
)
REVENUE = replace(CLEAN, name="shop-revenue", reads="shop.cleaned", writes=("shop.revenue",), lag=None)
BROKERS = tuple(BrokerView(broker_id=n, address=f"127.0.0.1:909{n}", leaders=4, replicas=11) for n in (1, 2, 3))
ORDERS = TopicView(name="shop.orders", partitions=4, replicas=12, in_sync=12, without_leader=0, end_offset=99_000)
SNAPSHOT = Snapshot(
    elapsed_s=83.4,
    brokers_wanted=3,
    orders_sent=41_230,
    orders_per_s=500.0,
    queries=(CLEAN, REVENUE),
    drivers_started=1,
    cluster=Told(is_current=True, brokers=BROKERS, topics=(ORDERS,)),
    revenue_rows=2,
    revenue=(
        RevenueView(window_start="2026-01-02T03:04:05.000Z", category="tea", orders=7, cents=123_456),
        RevenueView(window_start="2026-01-02T03:04:10.000Z", category="toys", orders=1, cents=99),
    ),
    news=("3 s  3 brokers serve",),
)


def drawn(snapshot: Snapshot, *, width: int = 140, height: int = 50) -> list[str]:
    """The lines of a page without what moves the cursor."""
    text = page(snapshot, PLAN, in_colour=False, width=width, height=height)
    assert text.startswith("\x1b[H")
    return re.sub(r"\x1b\[[HKJ]", "", text).splitlines()


def cells(lines: list[str], beginning: str) -> list[str]:
    [found] = [each for each in lines if each.strip().startswith(beginning)]
    return re.split(r"\s{2,}", found.strip())


def test_a_page_tells_of_queries_replicas_brokers_and_revenue() -> None:
    lines = drawn(SNAPSHOT)
    assert "3 brokers   Spark local[2]   commit mode batch   83 s" in lines[0]
    assert "orders in: 500/s, 41,230 in all" in lines
    assert cells(lines, "shop-clean")[3:] == ["498", "12,345", "27", "412", "250"]
    assert cells(lines, "shop-revenue")[-1] == "-"
    assert cells(lines, "shop.orders") == ["shop.orders", "4", "12 of 12", "99,000"]
    assert cells(lines, "03:04:05") == ["03:04:05", "tea", "7", "1,234.56"]
    assert [each[:8] for each in lines if each.startswith("03:04:")] == ["03:04:10", "03:04:05"]
    assert "3 s  3 brokers serve" in lines
    assert lines[-3].startswith("Ctrl-C stops everything.")


def test_a_broker_that_died_is_shown_as_gone() -> None:
    lines = drawn(replace(SNAPSHOT, cluster=replace(SNAPSHOT.cluster, brokers=BROKERS[:1] + BROKERS[2:])))
    assert cells(lines, "2 ")[:2] == ["2", "gone"]


def test_a_cluster_that_does_not_answer_and_a_driver_that_came_back_are_told_of() -> None:
    told = replace(SNAPSHOT, cluster=replace(SNAPSHOT.cluster, is_current=False), drivers_started=3)
    assert "the cluster does not answer" in drawn(told)[0]
    assert "started 3 times" in drawn(told)[0]
    assert "does not answer" in line(told)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (10, 2), (200, 60)])
def test_a_page_never_outgrows_the_terminal(width: int, height: int) -> None:
    lines = drawn(SNAPSHOT, width=width, height=height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [30, 80, 120])
def test_a_command_to_copy_is_there_whole_or_not_at_all(width: int) -> None:
    address = BROKERS[0].address
    lines = drawn(SNAPSHOT, width=width)
    commands = [line for line in lines if "describe" in line or "kill" in line]
    assert all(command.endswith(f" -b {address}") for command in commands)
    assert len(commands) == (2 if width >= 80 else 0)


def test_a_page_may_be_cut_anywhere() -> None:
    for width in range(1, 141):
        assert max(map(len, drawn(SNAPSHOT, width=width))) <= width


def test_before_anything_is_known_there_is_a_page_too() -> None:
    empty = replace(SNAPSHOT, cluster=Told(), revenue=(), news=(), queries=(replace(CLEAN, lag=None), REVENUE))
    assert drawn(empty)[0].startswith("TIDELOG SHOP")


def test_colour_marks_headings_and_what_is_amiss() -> None:
    behind = replace(ORDERS, in_sync=11)
    text = page(
        replace(SNAPSHOT, cluster=replace(SNAPSHOT.cluster, topics=(behind,))),
        PLAN,
        in_colour=True,
        width=140,
        height=50,
    )
    assert "\x1b[1mQUERY" in text
    assert re.search(r"\x1b\[31mshop\.orders.*11 of 12", text)
    assert not re.search(r"\x1b\[31mshop\.orders", page(SNAPSHOT, PLAN, in_colour=True, width=140, height=50))


def test_a_line_says_what_matters() -> None:
    assert line(SNAPSHOT) == (
        "83 s  orders 500/s  shop-clean 498 rows/s lag 250 micro-batches 27  shop-revenue 498 rows/s lag - micro-batches 27  "
        "revenue rows 2  brokers 3/3  in sync 12/12"
    )


def test_the_summary_counts() -> None:
    assert summary(SNAPSHOT) == ("41,230 orders sent, 12,345 judged, 2 rows of revenue, 54 micro-batches in 83 s")


def test_json_is_one_line_with_all_of_it() -> None:
    text = SNAPSHOT.to_json()
    assert "\n" not in text
    content = json.loads(text)
    assert content["queries"][0]["lag"] == 250
    assert content["cluster"]["topics"][0]["in_sync"] == 12


def test_a_cluster_is_whole_when_all_brokers_are_there_and_all_replicas_in_sync() -> None:
    assert SNAPSHOT.is_whole
    told = SNAPSHOT.cluster
    for other in (
        replace(told, is_current=False),
        replace(told, brokers=BROKERS[:2]),
        replace(told, topics=(replace(ORDERS, in_sync=11),)),
    ):
        assert not replace(SNAPSHOT, cluster=other).is_whole

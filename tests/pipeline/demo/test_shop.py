"""The pipeline's transformations on plain rows, without brokers: what comes out is what the orders say must come out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.orders import CATALOG, OrderStream, Reason, iso, revenue_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STREAM = OrderStream(seed=11, start_ms=1_700_000_000_000, per_second=200)
NOW = iso(STREAM.start_ms)
GOOD = {"customer": "c-1", "sku": CATALOG[0].sku, "quantity": 2, "placed_at": NOW, "sent_at": NOW}


def records(spark: SparkSession, rows: Iterable[tuple[bytes | None, bytes | None]]) -> DataFrame:
    return spark.createDataFrame([(key, value) for key, value in rows], "key binary, value binary")


def judge(spark: SparkSession, rows: Iterable[tuple[bytes | None, bytes | None]]) -> list[Row]:
    from tidelog.pipeline.demo.shop import judged

    known = [(each.sku, each.name, each.category, each.price_cents) for each in CATALOG]
    products = spark.createDataFrame(known, "sku string, name string, category string, price_cents long")
    return judged(records(spark, rows), products).collect()


def good_but(**other: object) -> bytes:
    return json.dumps({**GOOD, **other}).encode()


def verdict(row: Row) -> str | None:
    content = json.loads(row.value)
    return str(content["reason"]) if row.topic == orders.REJECTED else None


def test_every_order_comes_out_once_with_the_verdict_of_its_fate(spark: SparkSession) -> None:
    made = list(STREAM.first(3000))
    rows = judge(spark, [(order.key, order.value) for order in made])
    assert len(rows) == len(made)
    assert {bytes(row.key): verdict(row) for row in rows} == {order.key: order.reason for order in made}


def test_a_cleaned_order_is_enriched(spark: SparkSession) -> None:
    [row] = judge(spark, [(b"o-1", json.dumps(GOOD).encode())])
    assert row.topic == orders.CLEANED
    assert json.loads(row.value) == {
        "customer": "c-1",
        "sku": CATALOG[0].sku,
        "product": CATALOG[0].name,
        "category": CATALOG[0].category,
        "quantity": 2,
        "total_cents": 2 * CATALOG[0].price_cents,
        "placed_at": NOW,
    }


def test_a_rejected_order_keeps_what_it_said(spark: SparkSession) -> None:
    said = json.dumps({**GOOD, "sku": "snow-1"})
    [row] = judge(spark, [(b"o-1", said.encode())])
    assert json.loads(row.value) == {"reason": Reason.UNKNOWN_PRODUCT, "text": said}


def test_what_strangers_send_is_judged_too(spark: SparkSession) -> None:
    said: list[tuple[bytes | None, Reason | None]] = [
        (None, Reason.UNREADABLE),
        (b"", Reason.UNREADABLE),
        (b"[]", Reason.UNREADABLE),
        (b'"text"', Reason.UNREADABLE),
        (b"\xff\xfe{}", Reason.UNREADABLE),
        (b"{}", Reason.INCOMPLETE),
        (good_but(quantity="many"), Reason.UNREADABLE),
        (good_but(quantity=1 << 40), Reason.UNREADABLE),
        (good_but(placed_at="soon"), Reason.UNREADABLE),
        (good_but(quantity=0), Reason.QUANTITY),
        (good_but(sent_at=iso(STREAM.start_ms + 2000)), None),
        (good_but(sent_at=iso(STREAM.start_ms + 2001)), Reason.LATE),
        (good_but(more=[1, {"a": 2}]), None),
    ]
    rows = judge(spark, [(str(number).encode(), value) for number, (value, _) in enumerate(said)])
    assert {int(row.key): verdict(row) for row in rows} == dict(enumerate(reason for _, reason in said))


def test_revenue_is_the_sum_of_the_cleaned_orders(spark: SparkSession) -> None:
    from tidelog.pipeline.demo.shop import revenue_rows

    rows = judge(spark, [(order.key, order.value) for order in STREAM.first(4000)])
    cleaned = records(spark, [(row.key, row.value) for row in rows if row.topic == orders.CLEANED])
    found = [json.loads(row.value) for row in revenue_rows(cleaned).collect()]
    expected = [
        {
            "window_start": iso(window.start_ms),
            "category": window.category,
            "orders": revenue.orders,
            "cents": revenue.cents,
        }
        for window, revenue in revenue_of(STREAM.first(4000)).items()
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_query_is_its_own_group_with_a_checkpoint_of_its_own() -> None:
    from tidelog.pipeline.demo.shop import Shop

    shop = Shop(bootstrap="h:1", checkpoints=Path("/data"), commit_mode="2pc", orders_per_second=9)
    assert shop.sink_options(orders.CLEAN_QUERY) == {
        "kafka.bootstrap.servers": "h:1",
        "checkpointLocation": "/data/shop-clean",
        "sink.id": "shop-clean",
        "offsets.group": "shop-clean",
        "commit.mode": "2pc",
    }

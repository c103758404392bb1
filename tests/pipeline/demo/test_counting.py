"""Counting: every fault there can be is seen, and none where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.client.fetched import ConsumedRecord
from tidelog.model import NO_LEADER_EPOCH, TimestampType, TopicPartition
from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.counting import Tally, Verdict, judge, revenue_in
from tidelog.pipeline.demo.orders import Order, OrderStream, Reason, Revenue, Window, iso, revenue_of

STREAM = OrderStream(seed=1, start_ms=1_700_000_000_000, per_second=100)
MADE = list(STREAM.first(200))
SENT = {order.key: order for order in MADE}
EXPECTED = revenue_of(iter(MADE))
CLEAN = next(order for order in MADE if order.reason is None)
BAD = next(order for order in MADE if order.reason is not None)


def record(topic: str, key: bytes, value: bytes = b"{}") -> ConsumedRecord:
    return ConsumedRecord(
        topic_partition=TopicPartition(topic, 0),
        offset=0,
        timestamp_ms=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=(),
        leader_epoch=NO_LEADER_EPOCH,
    )


def written(window: Window, revenue: Revenue) -> ConsumedRecord:
    row = (
        f'{{"window_start": "{iso(window.start_ms)}", "category": "{window.category}", '
        f'"orders": {revenue.orders}, "cents": {revenue.cents}}}'
    )
    return record(orders.REVENUE, window.category.encode(), row.encode())


def topic_of(order: Order) -> str:
    return orders.CLEANED if order.reason is None else orders.REJECTED


def output() -> list[ConsumedRecord]:
    """What must come out."""
    return [record(topic_of(order), order.key) for order in MADE] + [written(*each) for each in EXPECTED.items()]


def verdict_of(records: list[ConsumedRecord], *, open_transactions: int = 0) -> Verdict:
    tally = Tally()
    tally.add(records)
    return judge(tally, SENT, EXPECTED, open_transactions=open_transactions)


PERFECT = Verdict(
    records_in=200, records_out=200, lost=0, duplicated=0, misjudged=0, windows=len(EXPECTED),
    windows_missing=0, windows_duplicated=0, windows_wrong=0, open_transactions=0,
)  # fmt: skip


def test_all_that_must_come_out_is_exact() -> None:
    assert verdict_of(output()) == PERFECT
    assert PERFECT.is_exact


@pytest.mark.parametrize("order", [CLEAN, BAD])
def test_an_order_that_is_missing_is_lost(order: Order) -> None:
    verdict = verdict_of([each for each in output() if each.key != order.key])
    assert verdict == replace(PERFECT, records_out=199, lost=1)
    assert not verdict.is_exact


def test_copies_are_counted_wherever_they_are() -> None:
    copies = [record(topic_of(CLEAN), CLEAN.key), record(topic_of(CLEAN), CLEAN.key), record(topic_of(BAD), BAD.key)]
    verdict = verdict_of(output() + copies)
    assert verdict == replace(PERFECT, records_out=203, duplicated=3)
    assert not verdict.is_exact


def test_an_order_both_cleaned_and_rejected_is_there_twice_and_misjudged() -> None:
    verdict = verdict_of([*output(), record(orders.REJECTED, CLEAN.key)])
    assert verdict == replace(PERFECT, records_out=201, duplicated=1, misjudged=1)


def test_an_order_in_the_wrong_topic_is_misjudged_but_not_lost() -> None:
    moved = [
        each._replace(topic_partition=TopicPartition(orders.CLEANED, 0)) if each.key == BAD.key else each
        for each in output()
    ]
    verdict = verdict_of(moved)
    assert verdict == replace(PERFECT, misjudged=1)
    assert not verdict.is_exact


def test_an_order_nobody_sent_is_misjudged() -> None:
    assert verdict_of([*output(), record(orders.CLEANED, b"o-stranger")]).misjudged == 1


def test_windows_are_held_against_the_orders() -> None:
    window, revenue = next(iter(EXPECTED.items()))
    others = [each for each in output() if each != written(window, revenue)]
    assert verdict_of(others) == replace(PERFECT, windows_missing=1)
    more = replace(revenue, orders=revenue.orders + 1)
    assert verdict_of([*others, written(window, more)]) == replace(PERFECT, windows_wrong=1)
    twice = verdict_of([*output(), written(window, revenue)])
    assert twice == replace(PERFECT, windows_duplicated=1)
    stranger = written(Window(0, "tea"), Revenue(1, 1))
    assert verdict_of([*output(), stranger]) == replace(PERFECT, windows_wrong=1)
    assert not twice.is_exact


def test_a_transaction_left_open_is_a_fault() -> None:
    assert not verdict_of(output(), open_transactions=1).is_exact


def test_a_row_of_revenue_is_read_as_spark_writes_it() -> None:
    value = b'{"window_start":"2023-11-14T22:13:20.000Z","category":"tea","orders":3,"cents":1200}'
    assert revenue_in(value) == (Window(1_700_000_000_000, "tea"), Revenue(3, 1200))


def test_all_reasons_are_among_the_orders_of_these_tests() -> None:
    assert {order.reason for order in MADE} >= {None, Reason.LATE}

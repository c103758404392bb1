"""Subscriptions by regular expression: whatever strangers write, in bounded time."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

import pytest

from tests.coordinator.group.consumer_room import FakeTopics, Room
from tidelog.coordinator.group.consumer.member import Member
from tidelog.coordinator.group.consumer.regex import LENGTH_MAX, REMEMBERED_MAX, Matches, matching
from tidelog.coordinator.group.records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    consumer_group_member_metadata_record,
    consumer_group_metadata_record,
    consumer_group_regular_expression_record,
)
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ApiError, ErrorCode

REGEX = 16


def test_an_expression_has_to_match_the_whole_name() -> None:
    assert matching("orders-.*", ["orders-1", "my-orders-2", "orders", "orders-"]) == {"orders-1", "orders-"}
    assert matching("(?i)A|b", ["a", "B", "ab"]) == {"a", "B"}
    assert matching("", ["a"]) == frozenset()


@pytest.mark.parametrize(
    "regex",
    ["(", "a{5000}", "(?=a)b", r"(a)\1", "[z", "*", "a" * (LENGTH_MAX + 1), "((a{100}){100}){100}", "(a{999}b){20}"],
)
def test_what_cannot_be_matched_in_linear_time_or_is_too_large_is_refused(regex: str) -> None:
    with pytest.raises(ApiError) as raised:
        matching(regex, ["a"])
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "regex", ["(a+)+$", "(a|a)*b", "(.*a){12}b", "(" * 300 + ")" * 300, "[ab]*a[ab]{400}c", ".*a.{60}c"]
)
def test_expressions_that_would_stop_a_backtracking_engine_take_no_time(regex: str) -> None:
    names = ["a" * length for length in range(1, 249)]
    began = perf_counter()
    matching(regex, names)
    assert perf_counter() - began < 2.0


@pytest.mark.slow
def test_brokers_without_such_groups_do_not_load_the_engine() -> None:
    code = "import sys, tidelog.coordinator.group.assembly; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_member_reads_what_its_expression_matches() -> None:
    room = Room(t1=2, t2=1, other=3)
    x = room.reader("x", topics=(), regex="t.*")
    x.settle()
    assert x.partitions == [0, 0, 1]
    assert room.written() == [5, REGEX, 3, 7, 6, 8]
    assert room.group.is_subscribed_to("t1")
    assert not room.group.is_subscribed_to("other")
    assert room.describe().members[0].subscribed_topic_regex == "t.*"
    room.fail_over()
    y = room.reader("y", topics=("other",), regex="t.*")
    room.settle(x, y)
    assert len(x.partitions) == len(y.partitions) == 3


def test_new_topics_are_found_but_not_all_the_time() -> None:
    room = Room(t1=1)
    x = room.reader("x", topics=(), regex="t.*")
    room.settle(x)
    room.grow("t2", 1)
    room.settle(x)
    assert x.partitions == [0], "too soon"
    room.driver.wait_ms(10_001)
    room.settle(x)
    assert x.partitions == [0, 0]
    room.driver.wait_ms(10_001)
    since = len(room.driver.log)
    room.settle(x)
    room.grow("other", 1)
    assert room.written(since) == [REGEX], "looked again, and found nothing new"
    epoch = room.group.epoch
    room.fail_over()
    room.settle(x)
    assert room.group.epoch == epoch


def test_a_topic_that_comes_after_a_while_is_found_at_once() -> None:
    room = Room(t1=1)
    x = room.reader("x", topics=(), regex="t.*")
    room.settle(x)
    room.driver.wait_ms(10_001)
    epoch = room.group.epoch
    room.grow("t2", 1)
    assert room.group.epoch == epoch + 1
    room.settle(x)
    assert x.partitions == [0, 0]


def test_a_topic_is_found_though_somebody_joined_with_another_expression_meanwhile() -> None:
    room = Room(t1=1)
    x, y = room.reader("x", topics=(), regex="t.*"), room.reader("y", topics=(), regex="u.*")
    room.settle(x)
    room.grow("t2", 1)
    room.settle(y)
    assert x.partitions == [0], "too soon"
    room.driver.wait_ms(10_001)
    room.settle(x, y)
    assert x.partitions == [0, 0]
    since = len(room.driver.log)
    room.driver.wait_ms(10_001)
    room.settle(x, y)
    assert room.written(since) == []


def test_an_expression_that_is_none_here_is_nobody_elses_trouble() -> None:
    """Written by Kafka, whose limits are others: its group goes on with what it matched, and all other groups hear of topics."""
    regex = "(t{1,900}){1,30}|t"
    room = Room(t=1)
    x = room.reader("x")
    x.settle()
    for record in (
        consumer_group_member_metadata_record(
            "foreign", "m", Member(member_id="m", regex=regex, rebalance_timeout_ms=1_000).metadata_value()
        ),
        consumer_group_regular_expression_record(
            "foreign", regex, ConsumerGroupRegularExpressionValue(topics=("t",), version=77, timestamp=0)
        ),
        consumer_group_metadata_record("foreign", ConsumerGroupMetadataValue(epoch=1)),
    ):
        room.driver.write(record)
    room.grow("t", 3)
    room.settle(x)
    assert x.partitions == [0, 1, 2]
    foreign = room.machine._book.groups["foreign"]  # noqa: SLF001  # the state is what these tests are about
    assert foreign.is_subscribed_to("t")


def test_expressions_are_looked_at_again_after_the_interval() -> None:
    room = Room(GroupSettings(consumer_regex_refresh_interval_ms=30_000), t1=1)
    x = room.reader("x", topics=(), regex="t.*")
    room.settle(x)
    since = len(room.driver.log)
    room.driver.wait_ms(30_000)
    x.settle()
    assert room.written(since) == []
    room.driver.wait_ms(1)
    x.settle()
    assert room.written(since) == [REGEX]


def test_an_expression_is_forgotten_with_its_last_subscriber() -> None:
    room = Room(t1=1, u1=1)
    x, y = room.reader("x", topics=(), regex="t.*"), room.reader("y", topics=(), regex="t.*")
    room.settle(x, y)
    x.regex, x.is_full_due = "u.*", True
    room.settle(x, y)
    assert set(room.group.resolutions) == {"t.*", "u.*"}
    assert (x.partitions, y.partitions) == ([0], [0])
    y.leave()
    assert set(room.group.resolutions) == {"u.*"}
    room.fail_over()
    x.regex, x.topics, x.is_full_due = "", ("t1",), True
    room.settle(x)
    assert room.group.resolutions == {}
    assert x.owned == {room.topics.views["t1"].topic_id: {0}}


def test_a_bad_expression_changes_nothing() -> None:
    room = Room(t1=1)
    x = room.reader("x", topics=(), regex="t.*")
    room.settle(x)
    since = len(room.driver.log)
    response = x.beat(subscribed_topic_regex="t[")
    assert response.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "t[" in (response.error_message or "")
    assert room.written(since) == []
    assert x.beat().error_code is ErrorCode.NONE


def test_only_names_that_are_new_are_looked_at_and_those_that_are_gone_do_not_match() -> None:
    topics = FakeTopics(t1=1, u=1)
    matches = Matches(topics)
    assert matches.of("t.") == {"t1"}
    topics.put("t2", 1)
    topics.delete("t1")
    assert matches.of("t.") == {"t2"}
    assert matches.of("u") == {"u"}
    topics.put("t1", 1)
    assert matches.of("t.") == {"t1", "t2"}
    for number in range(REMEMBERED_MAX + 1):
        assert matches.of(f"x{number}") == frozenset()
    assert matches.of("t.") == {"t1", "t2"}, "forgotten, and found again"

"""Where a reset moves a group: the words, and what they come to."""

from __future__ import annotations

import pytest

from tidelog.cli.groups_topics import parse_topic_partitions
from tidelog.cli.partition_names import Wanted
from tidelog.cli.reset_plan import (
    Edge,
    Known,
    Move,
    ShiftBy,
    Target,
    ToListed,
    ToOffset,
    ToTime,
    parse_datetime,
    parse_duration_ms,
    planned,
    read_offsets,
)
from tidelog.model import TopicPartition

T0 = TopicPartition("t", 0)
HALFWAY = Known(start=10, end=100, current=50)
UNREAD = Known(start=10, end=100, current=None)


@pytest.mark.parametrize(
    ("target", "known", "offset"),
    [
        (Edge.EARLIEST, HALFWAY, 10),
        (Edge.LATEST, HALFWAY, 100),
        (Edge.CURRENT, HALFWAY, 50),
        (Edge.CURRENT, UNREAD, 100),
        (Edge.CURRENT, Known(start=60, end=100, current=50), 50),
        (ToOffset(70), HALFWAY, 70),
        (ToOffset(10), HALFWAY, 10),
        (ToOffset(100), HALFWAY, 100),
        (ShiftBy(-20), HALFWAY, 30),
        (ShiftBy(20), HALFWAY, 70),
        (ToTime(5), HALFWAY._replace(at_time=33), 33),
        (ToTime(5), HALFWAY, 100),  # nothing so young: the end
        (ToListed({T0: 42}), UNREAD, 42),
    ],
)
def test_a_target_comes_to_an_offset(target: Target, known: Known, offset: int) -> None:
    assert planned(target, T0, known) == Move(offset)


@pytest.mark.parametrize(
    ("target", "offset", "words"),
    [
        (ToOffset(101), 100, "beyond the end"),
        (ToOffset(9), 10, "before its beginning"),
        (ShiftBy(-1000), 10, "before its beginning"),
        (ShiftBy(1000), 100, "beyond the end"),
        (ToListed({T0: 1 << 40}), 100, "beyond the end"),
    ],
)
def test_an_offset_that_is_not_in_the_log_is_moved_into_it_with_a_warning(
    target: Target, offset: int, words: str
) -> None:
    move = planned(target, T0, HALFWAY)
    assert move.offset == offset
    assert move.warning is not None
    assert words in move.warning


def test_what_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(ValueError, match="t:0 has no committed offset"):
        planned(ShiftBy(1), T0, UNREAD)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-01-31T13:00:00", 1769864400000),
        ("2026-01-31T13:00:00.250", 1769864400250),
        ("2026-01-31T13:00:00Z", 1769864400000),
        ("2026-01-31T14:00:00+01:00", 1769864400000),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, timestamp_ms: int) -> None:
    assert parse_datetime(text) == timestamp_ms


@pytest.mark.parametrize("text", ["yesterday", "", "13:00"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P7D", 7 * 86_400_000),
        ("P1DT0H0M0S", 86_400_000),
        ("PT0.5S", 500),
        ("90m", 5_400_000),
        ("12h", 43_200_000),
        ("30s", 30_000),
        ("2D", 2 * 86_400_000),
    ],
)
def test_a_duration_is_read(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["P", "PT", "", "10", "1w", "-5m", "PT5"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ms(text)


def test_a_file_says_an_offset_per_line() -> None:
    assert read_offsets(["t,0,5\n", "\n", '"a,b",1, 7\n']) == {T0: 5, TopicPartition("a,b", 1): 7}


@pytest.mark.parametrize("line", ["t,0", "t,0,x", "t,-1,0", "g,t,0,5"])
def test_a_line_that_says_none_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        read_offsets(["t,0,5\n", line])


def test_an_empty_file_is_no_plan() -> None:
    with pytest.raises(ValueError, match="no line"):
        read_offsets([])


def test_partitions_are_named_behind_their_topic() -> None:
    assert parse_topic_partitions("orders") == [Wanted("orders", None)]
    assert parse_topic_partitions("orders:0,3") == [Wanted("orders", 0), Wanted("orders", 3)]


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:1,", "t:x", "t:1,-2"])
def test_partitions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        parse_topic_partitions(text)

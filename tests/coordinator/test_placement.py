"""Which partition looks after a group: as Java computes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("console-consumer-49366", 19), ("group1", 40), ("polygenelubricants", 0), ("", 0)],
)
def test_a_known_group_lives_where_kafka_puts_it(group_id: str, partition: int) -> None:
    assert partition_of(group_id, 50) == partition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(1 << 31)),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # one character, two code units
        ("é", 233),
    ],
)
def test_the_hash_runs_over_utf16_code_units_and_wraps_at_32_bits(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@given(st.text(), st.integers(min_value=1, max_value=1000))
def test_every_group_lives_in_a_partition_there_is(group_id: str, count: int) -> None:
    assert 0 <= partition_of(group_id, count) < count
    assert -(1 << 31) <= java_hash(group_id) < 1 << 31

"""Which partition a record goes to."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.partitioner import StickyPartitioner, murmur2, partition_for_key
from tidelog.simulation.randomness import SimulatedRandomness


def signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def test_murmur2_gives_the_values_of_kafkas_own_unit_test() -> None:
    # org.apache.kafka.common.utils.UtilsTest.testMurmur2
    assert signed(murmur2(b"21")) == -973932308
    assert signed(murmur2(b"foobar")) == -790332482
    assert signed(murmur2(b"a-little-bit-long-string")) == -985981536
    assert signed(murmur2(b"a-little-bit-longer-string")) == -1486304829
    assert signed(murmur2(b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8")) == -58897971
    assert signed(murmur2(b"abc")) == 479470107


@pytest.mark.slow  # importing kafka-python takes a while
def test_murmur2_equals_that_of_kafka_python() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

    @given(st.binary(max_size=64))
    def agree(data: bytes) -> None:
        assert murmur2(data) == murmur2_of_kafka_python(data)

    agree()


@given(st.binary(max_size=32), st.integers(min_value=1, max_value=1000))
def test_a_key_always_goes_to_an_existing_partition(key: bytes, partition_count: int) -> None:
    assert 0 <= partition_for_key(key, partition_count) < partition_count


def test_a_negative_hash_is_made_positive_as_java_does() -> None:
    assert signed(murmur2(b"21")) < 0
    assert partition_for_key(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10


def test_sticky_partition_stays_until_told_to_move_on() -> None:
    sticky = StickyPartitioner(SimulatedRandomness(1))
    assert sticky.current("t") is None
    chosen = sticky.move_on("t", [0, 1, 2])
    assert sticky.current("t") == chosen
    assert sticky.move_on("t", [0, 1, 2]) != chosen


def test_sticky_partitioner_stays_where_there_is_nowhere_else() -> None:
    sticky = StickyPartitioner(SimulatedRandomness(1))
    assert [sticky.move_on("t", [4]) for _ in range(3)] == [4, 4, 4]


def test_sticky_partitioner_spreads_batches_evenly_in_the_long_run() -> None:
    sticky = StickyPartitioner(SimulatedRandomness(7))
    counts = Counter(sticky.move_on("t", range(4)) for _ in range(4000))
    assert all(900 < count < 1100 for count in counts.values())

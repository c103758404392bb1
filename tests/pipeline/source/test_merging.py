"""Small batches are merged on their way to Spark."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.pipeline.source.reading import merged

SMALL, LARGE = 10, 300_000


def batch(first: int, size: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%d" % first + bytes(size)], pa.binary())})


def rows(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [value for each in batches for value in each.column(0).to_pylist()]


@given(st.lists(st.sampled_from([SMALL, LARGE]), max_size=12))
def test_rows_stay_as_they_are_and_in_order(sizes: list[int]) -> None:
    given_batches = [batch(at, size) for at, size in enumerate(sizes)]
    assert rows(list(merged(iter(given_batches)))) == rows(given_batches)


def test_many_small_batches_become_one() -> None:
    assert len(list(merged(batch(at, SMALL) for at in range(1000)))) == 1


def test_large_batches_are_handed_on_as_they_are() -> None:
    large = [batch(at, LARGE) for at in range(3)]
    assert [found is given_one for found, given_one in zip(merged(iter(large)), large, strict=True)] == [True] * 3


def test_what_waits_to_be_merged_has_a_bound() -> None:
    endless = (batch(at, 100_000) for at in itertools.count())
    first = next(merged(endless))
    assert first.num_rows < 20

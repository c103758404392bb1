"""The lean way through a batch: the same offsets, keys and values as the careful one, and no other."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.records import CorruptBatch, RecordBatchBuilder, read_header, read_records
from tidelog.records.batch import HEADER_SIZE
from tidelog.records.record import entries

CONTENT = st.one_of(st.none(), st.binary(max_size=200))
RECORDS = st.lists(
    st.tuples(st.integers(0, 1 << 40), CONTENT, CONTENT, st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=2)),
    min_size=1,
    max_size=150,
)


def build(records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> bytes:
    builder = RecordBatchBuilder()
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms=timestamp_ms, key=key, value=value, headers=headers)
    return bytes(builder.build(base_offset=1_000))


def found(batch: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    header = read_header(batch)
    return list(entries(batch, HEADER_SIZE, header.size, header.base_offset, header.record_count))


@given(RECORDS)
def test_it_finds_what_the_careful_reader_finds(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    batch = build(records)
    careful = [(record.offset, record.key, record.value) for record in read_records(batch, max_bytes=1 << 24)]
    assert found(batch) == careful


@given(RECORDS, st.data())
def test_whatever_is_changed_it_ends_with_records_or_with_corruption(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], data: st.DataObject
) -> None:
    batch = bytearray(build(records))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        assert len(found(bytes(batch))) == len(records)


def test_records_that_do_not_fill_their_batch_are_corrupt() -> None:
    batch = build([(0, b"key", b"value", [])])
    with pytest.raises(CorruptBatch):
        list(entries(batch + b"\0", HEADER_SIZE, len(batch) + 1, 0, 1))
    with pytest.raises(CorruptBatch):
        list(entries(batch, HEADER_SIZE, len(batch), 0, 2))
    with pytest.raises(CorruptBatch):
        list(entries(batch[:-1], HEADER_SIZE, len(batch) - 1, 0, 1))

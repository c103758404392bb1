"""The encoder on whatever columns Spark may hand over, judged by our reader, the broker's validation and kafka-python."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.codec.arrow import arrow_batch
from tests.pipeline.codec.rows import NOW_MS, encoded
from tests.records import batches
from tests.records.judges import KafkaPythonBatch
from tidelog.client.partitioner import partition_for_key
from tidelog.pipeline.codec.encoding import EncodedBatch
from tidelog.records import Codec, ProduceRules, read_records, validate_produced
from tidelog.records.record import RecordHeader

pytestmark = pytest.mark.slow

Sent = tuple[bytes | None, bytes | None, tuple[RecordHeader, ...]]

RULES = ProduceRules(max_message_bytes=1 << 20, segment_bytes=1 << 20, wants_every_record_checked=True)

binary_types = st.sampled_from(
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]
)
text_types = st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
compressions = st.sampled_from([codec.name.lower() for codec in Codec])


def sent(rows: list[batches.Row]) -> list[Sent]:
    return [(key, value, headers) for _, key, value, headers in rows]


def records_of(batch: EncodedBatch) -> list[Sent]:
    """What is in a batch, after the broker has found nothing wrong with it."""
    validated = validate_produced(bytearray(batch.data), RULES, NOW_MS)
    assert validated.header.record_count == batch.record_count
    records = read_records(batch.data, max_bytes=1 << 20)
    assert {record.timestamp_ms for record in records} == {NOW_MS}
    return [(record.key, record.value, record.headers) for record in records]


@given(batches.rows, compressions, st.integers(1, 5), st.integers(62, 20_000))
def test_every_row_is_in_one_batch_of_its_partition(
    rows: list[batches.Row], compression: str, partition_count: int, batch_bytes_max: int
) -> None:
    encoded_batches = encoded(
        arrow_batch(rows), partition_count=partition_count, compression=compression, batch_bytes_max=batch_bytes_max
    )

    by_partition: dict[int, list[Sent]] = defaultdict(list)
    for batch in encoded_batches:
        assert len(batch.data) <= batch_bytes_max or batch.record_count == 1
        by_partition[batch.partition] += records_of(batch)
    keyed = [row for row in sent(rows) if row[0] is not None]
    for partition, found in by_partition.items():
        expected = [
            row for row in keyed if row[0] is not None and partition_for_key(row[0], partition_count) == partition
        ]
        assert [row for row in found if row[0] is not None] == expected  # in their order
    found_keyless = [row for found in by_partition.values() for row in found if row[0] is None]
    assert sorted(map(repr, found_keyless)) == sorted(repr(row) for row in sent(rows) if row[0] is None)
    if partition_count == 1:
        assert by_partition[0] == sent(rows)


@given(batches.rows, binary_types, st.integers(0, 3), st.integers(0, 3))
def test_columns_of_every_binary_type_and_any_part_of_them_are_sent(
    rows: list[batches.Row], type_: pa.DataType, cut_before: int, cut_after: int
) -> None:
    whole = arrow_batch(rows)
    columns = {name: whole.column(name) for name in ("key", "value", "headers")}
    for name in ("key", "value"):
        columns[name] = pa.array(columns[name].to_pylist(), pa.binary()).cast(_plain(type_))
        columns[name] = columns[name].dictionary_encode() if pa.types.is_dictionary(type_) else columns[name]
    part = pa.RecordBatch.from_pydict(columns).slice(cut_before, max(len(rows) - cut_before - cut_after, 0))

    found = [row for batch in encoded(part) for row in records_of(batch)]

    assert found == sent(rows)[cut_before : max(len(rows) - cut_after, cut_before)]


@given(st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=10), text_types)
def test_text_is_sent_as_utf_8(values: list[str | None], type_: pa.DataType) -> None:
    column = pa.array(values, pa.string()).cast(_plain(type_))
    column = column.dictionary_encode() if pa.types.is_dictionary(type_) else column

    [batch] = encoded(pa.RecordBatch.from_pydict({"key": column, "value": column}))

    expected = [None if value is None else value.encode() for value in values]
    assert [(key, value) for key, value, _ in records_of(batch)] == list(zip(expected, expected, strict=True))


@given(batches.rows, compressions)
def test_kafka_python_reads_what_is_encoded(rows: list[batches.Row], compression: str) -> None:
    [encoded_batch] = encoded(arrow_batch(rows), compression=compression)

    batch = KafkaPythonBatch(bytes(encoded_batch.data))

    assert batch.validate_crc()
    assert [(record.key, record.value, tuple(record.headers)) for record in batch] == sent(rows)


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_

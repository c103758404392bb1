"""Where the rows of an Arrow batch go, what the batches look like, and which columns are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.pipeline.codec.arrow import HEADERS, arrow_batch, headers_array
from tests.pipeline.codec.rows import NOW_MS, encoded
from tests.records.batches import Row
from tidelog.client.partitioner import partition_for_key
from tidelog.pipeline.codec.encoding import encode, stamp
from tidelog.records import Codec, RecordBatchBuilder, crc_holds, read_header, read_records

ROWS: list[Row] = [
    (0, b"a", b"1", ()),
    (0, None, None, (("h", None), ("größe", b"x" * 100))),
    (0, b"", b"v" * 10_000, (("", b""),)),
]


def table(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def texts(count: int, size: int = 1) -> pa.Array:
    return pa.array([str(index % 10) * size for index in range(count)], pa.string())


def test_one_partition_gets_the_very_batch_that_a_producer_would_build() -> None:
    builder = RecordBatchBuilder()
    for _, key, value, headers in ROWS:
        builder.append(timestamp_ms=NOW_MS, key=key, value=value, headers=headers)

    [batch] = encoded(arrow_batch(ROWS))

    assert bytes(batch.data) == builder.build()
    assert (batch.partition, batch.record_count, batch.max_timestamp) == (0, 3, NOW_MS)


def test_a_stamped_batch_is_the_one_that_an_idempotent_producer_would_build() -> None:
    builder = RecordBatchBuilder(producer_id=1 << 40, producer_epoch=7, base_sequence=99, is_transactional=True)
    for _, key, value, headers in ROWS:
        builder.append(timestamp_ms=NOW_MS, key=key, value=value, headers=headers)
    [batch] = encoded(arrow_batch(ROWS))

    stamp(batch.data, producer_id=1 << 40, producer_epoch=7, base_sequence=99, is_transactional=True)

    assert bytes(batch.data) == builder.build()


def test_a_batch_can_be_stamped_anew() -> None:
    [batch] = encoded(arrow_batch(ROWS), compression="zstd")
    before = bytes(batch.data)
    data = bytearray(before)

    stamp(data, producer_id=5, producer_epoch=1, base_sequence=2, is_transactional=True)
    stamp(data, producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=False)

    assert data == before


def test_stamping_one_of_many_batches_leaves_the_others_alone() -> None:
    batches = encoded(table(value=texts(40)), batch_bytes_max=150)
    before = [bytes(batch.data) for batch in batches]

    stamp(batches[1].data, producer_id=5, producer_epoch=1, base_sequence=2, is_transactional=False)

    changed = [index for index, batch in enumerate(batches) if bytes(batch.data) != before[index]]
    assert changed == [1]
    assert all(crc_holds(batch.data, 0, read_header(batch.data)) for batch in batches)


def test_keys_choose_the_partition_that_every_client_would_choose() -> None:
    keys = [b"", b"k", b"key-12345", "größe".encode(), bytes(range(256))] + [b"%d" % index for index in range(200)]

    batches = encoded(table(key=pa.array(keys, pa.binary()), value=texts(len(keys))), partition_count=7)

    for batch in batches:
        for record in read_records(batch.data, max_bytes=1 << 20):
            assert record.key is not None
            assert partition_for_key(record.key, 7) == batch.partition
    assert sum(batch.record_count for batch in batches) == len(keys)


def test_a_named_partition_counts_more_than_the_key() -> None:
    keys = pa.array([b"a", b"a", None, None], pa.binary())
    partitions = pa.array([3, None, 2, 2], pa.int32())

    batches = encoded(table(key=keys, value=texts(4), partition=partitions), partition_count=5)

    assert {batch.partition: batch.record_count for batch in batches} == {3: 1, partition_for_key(b"a", 5): 1, 2: 2}


def test_rows_that_may_go_anywhere_are_spread_batch_by_batch() -> None:
    batches = encoded(table(value=texts(100, size=100)), partition_count=4, batch_bytes_max=1_000)

    partitions = [batch.partition for batch in batches]
    assert len(partitions) > 8
    assert partitions == [(partitions[0] + index) % 4 for index in range(len(partitions))]


def test_small_batches_of_different_times_go_to_different_partitions() -> None:
    for interval_ms in (1, 100, 1_000, 60_000):
        chosen = {
            encode(
                table(value=texts(1)),
                partition_count=4,
                now_ms=NOW_MS + index * interval_ms,
                compression="none",
                batch_bytes_max=1_000,
            )[0].partition
            for index in range(40)
        }
        assert chosen == {0, 1, 2, 3}


def test_a_batch_is_full_at_exactly_so_many_bytes() -> None:
    [all_in_one] = encoded(table(value=texts(50)))
    size = len(all_in_one.data)

    assert len(encoded(table(value=texts(50)), batch_bytes_max=size)) == 1
    assert [batch.record_count for batch in encoded(table(value=texts(50)), batch_bytes_max=size - 1)] == [49, 1]


def test_many_batches_of_many_records_are_read_back() -> None:
    """The numbers of records within a batch take two bytes from the 65th on, and one again in the next batch."""
    batches = encoded(table(value=texts(20_000)), batch_bytes_max=2_000)

    assert min(batch.record_count for batch in batches[:-1]) > 200
    assert max(len(batch.data) for batch in batches) <= 2_000
    found = [record.value for batch in batches for record in read_records(batch.data, max_bytes=2_000)]
    assert found == [value.encode() for value in texts(20_000).to_pylist()]


def test_a_record_larger_than_a_batch_may_be_gets_one_of_its_own() -> None:
    values = pa.array([b"a", b"b" * 5_000, b"c"], pa.binary())

    batches = encoded(table(value=values), batch_bytes_max=200)

    assert [batch.record_count for batch in batches] == [1, 1, 1]
    assert len(batches[1].data) > 5_000


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read_back(codec: Codec) -> None:
    [batch] = encoded(table(value=texts(1_000, size=20)), compression=codec.name.lower())

    header = read_header(batch.data)
    assert header.codec is codec
    assert crc_holds(batch.data, 0, header)
    records = read_records(batch.data, max_bytes=1 << 20)
    assert [record.value for record in records] == [value.encode() for value in texts(1_000, size=20).to_pylist()]


def test_what_compression_would_make_larger_is_left_as_it_is() -> None:
    [batch] = encoded(table(value=pa.array([bytes(range(100))], pa.binary())), compression="lz4")

    assert read_header(batch.data).codec is Codec.NONE


def test_no_rows_make_no_batch() -> None:
    assert encoded(table(value=texts(0))) == []
    assert encoded(table(value=texts(5)).slice(5)) == []


def test_columns_of_nothing_but_nulls_need_no_type() -> None:
    nothing = pa.nulls(2)

    [batch] = encoded(table(key=nothing, value=nothing, partition=nothing, headers=nothing))

    records = read_records(batch.data, max_bytes=1_000)
    assert [(record.key, record.value, record.headers) for record in records] == [(None, None, ())] * 2


def test_columns_that_are_no_part_of_a_record_are_passed_over() -> None:
    [batch] = encoded(table(topic=texts(2), value=texts(2), price=pa.array([1.5, 2.5])))

    assert batch.record_count == 2


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"key": texts(1)}, "no column 'value' among key"),
        ({"value": pa.array([1])}, "column 'value' is of type int64, where binary or string is accepted"),
        ({"key": pa.array([1.5]), "value": texts(1)}, "column 'key' is of type double"),
        ({"value": texts(1), "partition": pa.array([1])}, "column 'partition' is of type int64, where int is"),
        (
            {"value": texts(1), "partition": pa.array([2], pa.int32())},
            "'partition' names 2, where the topic has 0 to 1",
        ),
        ({"value": texts(1), "partition": pa.array([-1], pa.int32())}, "names -1"),
        ({"value": texts(1), "headers": texts(1)}, "column 'headers' is of type string, where array<struct"),
        ({"value": texts(1), "headers": pa.array([["a"]])}, "column 'headers' is of type list"),
        ({"value": texts(1), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, "without a key"),
        ({"value": texts(1), "headers": pa.array([[None]], HEADERS)}, "without a key"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # equal in every worker, as columns printed are not
)
def test_columns_that_cannot_be_sent_are_refused(columns: dict[str, pa.Array], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("[", r"\[")):
        encoded(table(**columns), partition_count=2)


def test_compressions_and_partition_counts_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="no compression 'brotli': accepted are none, gzip, snappy, lz4, zstd"):
        encoded(table(value=texts(1)), compression="brotli")
    with pytest.raises(ValueError, match="0 partitions"):
        encoded(table(value=texts(1)), partition_count=0)


def test_a_column_whose_offsets_leave_its_data_is_refused() -> None:
    offsets = pa.py_buffer(b"".join(offset.to_bytes(4, "little") for offset in (0, 2, 1_000_000, 4)))
    broken = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abcd")])

    with pytest.raises(ValueError, match="column 'value' is broken at row 1"):
        encoded(table(value=broken))


def test_headers_of_a_row_that_is_null_are_not_sent() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        headers_array([[("a", b"1"), ("b", b"2")]]).values,
        type=HEADERS,
        mask=pa.array([True, False]),
    )

    [batch] = encoded(table(value=texts(2), headers=hidden))

    records = read_records(batch.data, max_bytes=1_000)
    assert [record.headers for record in records] == [(), (("b", b"2"),)]

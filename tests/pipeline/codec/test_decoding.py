"""What the decoder makes of the batches that brokers answer with, and what it refuses."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from crc32c import crc32c

from tests.pipeline.codec.rows import PARTITION, TOPIC, decode, row_of, rows_in, wanted
from tests.records.batches import batch_of, simple_batch
from tidelog.client.errors import CorruptRecords
from tidelog.model import TimestampType
from tidelog.pipeline.codec import decoding
from tidelog.pipeline.codec.decoding import COLUMNS, Decoder, Wanted, arrow_schema
from tidelog.records import Codec, MarkerType, build_marker, stamp, stamp_append_time
from tidelog.records.batch import BatchHeader, new_header, read_header, write_batch
from tidelog.records.record import encode_record

PRODUCER = 77


def at(offset: int, batch: bytearray) -> bytes:
    stamp(batch, 0, base_offset=offset, leader_epoch=0)
    return bytes(batch)


def values(count: int, *, start: int = 0) -> bytes:
    return at(start, batch_of([(1_000, b"k", b"%d" % (start + index), ()) for index in range(count)]))


def transactional(offset: int, value: bytes, *, producer_id: int = PRODUCER) -> bytes:
    header = read_header(simple_batch())._replace(attributes=0x10, producer_id=producer_id, record_count=1)
    return at(offset, write_batch(header._replace(last_offset_delta=0), encode_record(0, 0, None, value)))


def marker(offset: int, type_: MarkerType, *, producer_id: int = PRODUCER) -> bytes:
    return at(
        offset,
        build_marker(type_, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0),
    )


def read_values(fetched: bytes, what: Wanted | None = None, aborted: list[tuple[int, int]] | None = None) -> list[int]:
    return [int(row.value or b"-1") for row in decode(fetched, what, aborted=aborted or ())]


def with_header(batch: bytes, **claims: int) -> bytes:
    """The batch with another header and a checksum that holds."""
    header: BatchHeader = read_header(batch)._replace(**claims)
    changed = bytearray(batch)
    struct.pack_into(">qiibIhiqqqhii", changed, 0, *header)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def test_columns_are_exactly_those_that_spark_makes_of_the_official_source() -> None:
    from pyspark.sql import types as spark  # takes a second, which the other tests need not wait
    from pyspark.sql.pandas.types import to_arrow_schema

    text, content, number = spark.StringType(), spark.BinaryType(), spark.IntegerType()
    header = spark.StructType([spark.StructField("key", text), spark.StructField("value", content)])
    types = [content, content, text, number, spark.LongType(), spark.TimestampType(), number, spark.ArrayType(header)]
    fields = [spark.StructField(name, type_) for name, type_ in zip(COLUMNS, types, strict=True)]

    expected = to_arrow_schema(spark.StructType(fields), timezone="UTC")

    assert arrow_schema(COLUMNS).equals(expected, check_metadata=True)
    [batch] = Decoder(wanted()).decode(values(1)).batches
    assert batch.schema.equals(arrow_schema(COLUMNS), check_metadata=True)


def test_columns_come_in_the_order_asked_for() -> None:
    [batch] = Decoder(wanted(columns=("offset", "topic", "partition", "value"))).decode(values(2)).batches

    assert batch.to_pylist() == [
        {"offset": offset, "topic": TOPIC, "partition": PARTITION, "value": b"%d" % offset} for offset in (0, 1)
    ]


def test_rows_without_columns_are_still_counted() -> None:
    [batch] = Decoder(wanted(columns=())).decode(values(7)).batches

    assert (batch.num_rows, batch.num_columns) == (7, 0)


@pytest.mark.parametrize("columns", [("colour",), ("key", "key")])
def test_columns_that_are_unknown_or_asked_for_twice_are_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=columns[0]):
        wanted(columns=columns)


@pytest.mark.parametrize("codec", Codec)
def test_nulls_empty_bytes_and_headers_survive_every_codec(codec: Codec) -> None:
    rows = [
        (5, None, b"", ()),
        (3, b"", None, (("", None), ("größe", b""))),
        (9, b"k" * 200, b"v" * 70_000, (("h" * 100, b"x" * 300),)),
    ]

    assert decode(batch_of(rows, codec=codec)) == [row_of(index, *row) for index, row in enumerate(rows)]


def test_a_record_without_headers_has_null_as_in_the_official_source() -> None:
    fetched = batch_of([(0, None, b"", ()), (0, None, b"", (("h", b"x"),))])

    [batch] = Decoder(wanted(columns=("headers",))).decode(fetched).batches

    assert batch.column("headers").to_pylist() == [None, [{"key": "h", "value": b"x"}]]


def test_append_time_holds_for_all_records() -> None:
    batch = batch_of([(1, b"k", b"v", ()), (2, b"k", b"w", ())])
    stamp_append_time(batch, 0, append_time_ms=99)

    kind = TimestampType.LOG_APPEND_TIME
    assert decode(batch) == [row_of(0, 99, b"k", b"v", (), kind), row_of(1, 99, b"k", b"w", (), kind)]


def test_times_too_far_for_microseconds_are_the_farthest_there_are() -> None:
    far = (1 << 62) + 5
    farthest = ((1 << 63) - 1) // 1000 * 1000

    rows = decode(batch_of([(far, None, b"", ())])) + decode(with_header(bytes(simple_batch()), base_timestamp=-far))

    assert [row.timestamp for row in rows] == [farthest, -farthest, -farthest]


def test_header_names_that_are_no_text_are_replaced() -> None:
    payload = encode_record(0, 0, None, b"v", (("abc", b"1"), ("ok", b"2"))).replace(b"abc", b"a\xffc")
    header = new_header(attributes=0, last_offset_delta=0, base_timestamp=0, max_timestamp=0, record_count=1)

    [row] = decode(write_batch(header, payload))

    assert row.headers == (("a\ufffdc", b"1"), ("ok", b"2"))


def test_only_the_wanted_offsets_are_read() -> None:
    fetched = values(5) + values(5, start=5) + values(5, start=10)
    decoder = Decoder(wanted(from_offset=3, to_offset=8))

    decoded = decoder.decode(fetched)

    assert [row.offset for row in rows_in(decoded.batches)] == [3, 4, 5, 6, 7]
    assert decoded.next_offset == 8
    assert decoder.decode(fetched) == decoding.Decoded([], 8)


def test_what_comes_again_is_not_read_again() -> None:
    decoder = Decoder(wanted())
    first = decoder.decode(values(5)).batches

    second = decoder.decode(values(5) + values(3, start=5))

    assert [row.offset for row in rows_in([*first, *second.batches])] == list(range(8))
    assert second.next_offset == 8


def test_a_torn_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    torn = values(5, start=5)
    for size in range(len(torn)):
        decoded = Decoder(wanted()).decode(values(5) + torn[:size])
        assert (sum(batch.num_rows for batch in decoded.batches), decoded.next_offset) == (5, 5)


def test_nothing_fetched_is_no_progress_and_no_error() -> None:
    assert Decoder(wanted(from_offset=4)).decode(b"") == decoding.Decoded([], 4)


def test_gaps_of_compaction_are_gone_past() -> None:
    emptied = with_header(at(10, write_batch(read_header(simple_batch()), b"")), record_count=0, last_offset_delta=9)
    decoder = Decoder(wanted(to_offset=30))

    assert decoder.decode(values(2, start=3)).next_offset == 5
    assert decoder.decode(emptied).next_offset == 20
    assert decoder.decode(values(1, start=40)) == decoding.Decoded([], 30)


def test_control_batches_are_left_out_and_gone_past() -> None:
    fetched = transactional(0, b"0") + marker(1, MarkerType.COMMIT) + transactional(2, b"2")

    decoded = Decoder(wanted()).decode(fetched + marker(3, MarkerType.COMMIT))

    assert [row.offset for row in rows_in(decoded.batches)] == [0, 2]
    assert decoded.next_offset == 4


def test_aborted_transactions_end_at_their_marker() -> None:
    fetched = (
        transactional(0, b"0")
        + transactional(1, b"1", producer_id=8)
        + values(1, start=2)
        + marker(3, MarkerType.ABORT)
        + transactional(4, b"4")
        + marker(5, MarkerType.COMMIT)
        + marker(6, MarkerType.COMMIT, producer_id=8)
    )

    assert read_values(fetched, aborted=[(PRODUCER, 0)]) == [1, 2, 4]
    assert read_values(fetched, wanted(skips_aborted=False), [(PRODUCER, 0)]) == [0, 1, 2, 4]


def test_a_marker_before_the_wanted_offset_ends_its_transaction_too() -> None:
    fetched = transactional(0, b"0") + marker(1, MarkerType.ABORT) + transactional(2, b"2")

    assert read_values(fetched, wanted(from_offset=2), [(PRODUCER, 0)]) == [2]


def test_an_aborted_transaction_is_left_out_from_its_first_offset_on() -> None:
    fetched = transactional(0, b"0") + transactional(1, b"1") + marker(2, MarkerType.ABORT)

    assert read_values(fetched, aborted=[(PRODUCER, 1)]) == [0]


def test_only_the_marker_of_an_abort_ends_an_aborted_transaction() -> None:
    emptied = with_header(marker(1, MarkerType.ABORT)[:61], length=49, record_count=0)
    for other in (marker(1, MarkerType.COMMIT), emptied):
        fetched = transactional(0, b"0") + other + transactional(2, b"2") + marker(3, MarkerType.ABORT)
        assert read_values(fetched + transactional(4, b"4"), aborted=[(PRODUCER, 0)]) == [4]


def test_a_broken_marker_is_refused() -> None:
    header = read_header(marker(1, MarkerType.ABORT))
    broken = at(1, write_batch(header, encode_record(0, 0, b"\0", b"")))

    with pytest.raises(CorruptRecords, match="at offset 1: the control record"):
        decode(transactional(0, b"0") + broken, aborted=[(PRODUCER, 0)])


def test_a_record_that_only_looks_as_if_it_were_of_the_aborted_producer_stays() -> None:
    fetched = with_header(transactional(0, b"0"), attributes=0) + marker(1, MarkerType.ABORT)

    assert read_values(fetched, aborted=[(PRODUCER, 0)]) == [0]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_record_formats_are_refused_by_name(magic: int) -> None:
    message = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + b"\0" * 16

    with pytest.raises(CorruptRecords, match=f"orders-3 at offset 0: .*record format {magic}, where only format 2"):
        decode(message)


def test_a_batch_whose_checksum_does_not_hold_is_refused_and_named() -> None:
    bad = bytearray(values(3, start=3))
    bad[-1] ^= 1
    decoder = Decoder(wanted())

    with pytest.raises(CorruptRecords, match="checksum") as caught:
        decoder.decode(values(3) + bad)

    assert (caught.value.offset, caught.value.next_offset) == (3, 6)
    assert decoder.next_offset == 0


def test_damage_after_the_wanted_range_is_not_looked_at() -> None:
    bad = bytearray(values(3, start=3))
    bad[-1] ^= 1

    assert read_values(values(3) + bad, wanted(to_offset=3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"record_count": 4}, "cut short"),
        ({"record_count": 2}, "should end"),
        ({"record_count": -1}, "claims"),
        ({"last_offset_delta": -1}, "claims"),
        ({"last_offset_delta": 1}, "offset"),
        ({"base_offset": -5}, "claims"),
        ({"base_offset": (1 << 63) - (1 << 31)}, "claims"),
        ({"attributes": 7}, "codec"),
        ({"attributes": 1}, "gzip"),
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused(claims: dict[str, int], reason: str) -> None:
    lying = with_header(values(3), **claims)

    with pytest.raises(CorruptRecords, match=reason):
        decode(
            lying,
            Wanted(
                columns=COLUMNS,
                topic=TOPIC,
                partition=PARTITION,
                from_offset=-10,
                to_offset=(1 << 63) - 1,
                skips_aborted=True,
            ),
        )


def test_batches_that_overlap_are_refused() -> None:
    with pytest.raises(CorruptRecords, match="at offset 4"):
        decode(values(5) + values(5, start=4))


def test_offsets_that_do_not_rise_are_refused() -> None:
    payload = encode_record(1, 0, None, b"a") + encode_record(1, 0, None, b"b")
    header = read_header(simple_batch())._replace(record_count=2, last_offset_delta=1)

    with pytest.raises(CorruptRecords, match="does not follow"):
        decode(write_batch(header, payload))


def test_bytes_that_bring_nothing_new_are_an_error_rather_than_an_endless_loop() -> None:
    with pytest.raises(CorruptRecords, match="no whole batch at or after offset 5"):
        Decoder(wanted(from_offset=5)).decode(values(5))
    with pytest.raises(CorruptRecords, match="no whole batch"):
        Decoder(wanted()).decode(values(5)[:-1])


def test_a_batch_that_expands_too_far_is_refused() -> None:
    bomb = batch_of([(0, None, b"\0" * 1_000_000, ())], codec=Codec.ZSTD)

    with pytest.raises(CorruptRecords, match="zstd: expands to more than 1000 bytes"):
        Decoder(wanted(), record_batch_bytes_max=1_000).decode(bomb)


def test_of_a_fetch_that_expands_far_a_part_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_EXPANDED_BYTES_MAX", 1)
    monkeypatch.setattr("tidelog.pipeline.codec.payloads._RUN_BYTES", 1)
    fetched = b"".join(at(offset, batch_of([(0, None, b"%d" % offset, ())], codec=Codec.LZ4)) for offset in range(3))
    decoder = Decoder(wanted())

    assert [decoder.decode(fetched).next_offset for _ in range(3)] == [1, 2, 3]


def test_arrow_batches_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_ARROW_BATCH_ROWS", 4)
    fetched = values(10) + values(3, start=10)

    batches = Decoder(wanted()).decode(fetched).batches

    assert [batch.num_rows for batch in batches] == [4, 4, 4, 1]
    assert [row.offset for row in rows_in(batches)] == list(range(13))


def test_arrow_batches_end_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_ARROW_BATCH_BYTES", 1_000)
    rows = [(0, None, b"v" * 600, ()) for _ in range(5)]

    batches = Decoder(wanted()).decode(batch_of(rows)).batches

    assert [batch.num_rows for batch in batches] == [2, 2, 1]


def test_decoded_columns_do_not_refer_to_the_fetched_bytes() -> None:
    fetched = bytearray(values(3))
    [batch] = Decoder(wanted()).decode(memoryview(fetched)).batches

    fetched[:] = b"\xff" * len(fetched)
    fetched.clear()  # would raise were there a view on it

    assert batch.column("value").to_pylist() == [b"0", b"1", b"2"]
    assert pa.types.is_binary(batch.schema.field("value").type)

"""Records: round trips, other people's builders and readers as judges, and hostile payloads."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from tests.records.batches import Row, batch_of, codecs, rows, simple_batch
from tests.records.judges import AiokafkaBatch, AiokafkaBuilder, KafkaPythonBatch, KafkaPythonBuilder
from tidelog.model import InvariantBroken
from tidelog.records import (
    HEADER_SIZE,
    Codec,
    CorruptBatch,
    ExpandsTooFar,
    Record,
    RecordBatchBuilder,
    compress,
    read_header,
    read_records,
    stamp,
)
from tidelog.records.batch import write_batch
from tidelog.records.record import encode_record, payload_of, rebase, spans

LIMIT = 1 << 20


def as_records(rows: list[Row], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + index, *row) for index, row in enumerate(rows)]


def batch_with(payload: bytes, *, record_count: int = 1) -> bytearray:
    header = read_header(simple_batch())._replace(record_count=record_count, attributes=0)
    return write_batch(header, payload)


@given(rows, codecs, st.integers(0, 1 << 40))
def test_what_is_built_is_read_back(rows: list[Row], codec: Codec, base_offset: int) -> None:
    batch = batch_of(rows, codec=codec)
    stamp(batch, 0, base_offset=base_offset, leader_epoch=0)
    assert read_records(batch, max_bytes=LIMIT) == as_records(rows, base_offset)


@given(rows, codecs)
def test_aiokafka_reads_what_we_build(rows: list[Row], codec: Codec) -> None:
    batch = AiokafkaBatch(bytes(batch_of(rows, codec=codec)))
    assert batch.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == as_records(rows)


@given(rows.filter(lambda rows: all(row[0] >= 0 for row in rows)), codecs)  # aiokafka takes -1 for "none yet"
def test_we_read_what_aiokafka_builds(rows: list[Row], codec: Codec) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=LIMIT,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(rows):
        builder.append(index, timestamp=timestamp_ms, key=key, value=value, headers=list(headers))
    assert read_records(bytes(builder.build()), max_bytes=LIMIT) == as_records(rows)


@given(rows)
def test_kafka_python_builds_the_same_bytes(rows: list[Row]) -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=LIMIT,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(rows):
        builder.append(index, timestamp_ms, key, value, list(headers))
    theirs = builder.build()
    ours = batch_of(rows)
    stamp(theirs, 0, base_offset=0, leader_epoch=-1)  # the one field on which the builders may differ
    assert ours == theirs


@given(rows)
def test_kafka_python_reads_what_we_build(rows: list[Row]) -> None:
    batch = KafkaPythonBatch(bytes(batch_of(rows)))
    assert batch.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == as_records(rows)


@given(rows.filter(lambda rows: all(0 <= row[0] < 4_000_000_000_000 for row in rows)))
def test_kio_reads_what_we_build(rows: list[Row]) -> None:
    # kio keeps whole seconds only.
    batch, _ = read_batch(bytes(batch_of(rows)), 0)
    found = [
        Record(
            record.offset,
            int(record.timestamp.timestamp()),
            record.key,
            record.value,
            tuple(((header.key or b"").decode(), header.value) for header in record.headers),
        )
        for record in batch.records
    ]
    assert found == [record._replace(timestamp_ms=record.timestamp_ms // 1000) for record in as_records(rows)]


def test_builder_tells_count_and_uncompressed_size() -> None:
    builder = RecordBatchBuilder(codec=Codec.GZIP)
    assert (builder.record_count, builder.size_bytes) == (0, HEADER_SIZE)
    builder.append(timestamp_ms=0, key=b"k", value=b"v" * 1000)
    assert (builder.record_count, builder.size_bytes) == (1, HEADER_SIZE + 1010)
    assert len(builder.build()) < 200


def test_empty_builder_refuses_to_build() -> None:
    with pytest.raises(InvariantBroken):
        RecordBatchBuilder().build()


def test_timestamps_may_go_backwards_within_a_batch() -> None:
    batch = batch_of([(100, None, b"a", ()), (7, None, b"b", ()), (300, None, b"c", ())])
    assert [record.timestamp_ms for record in read_records(batch, max_bytes=LIMIT)] == [100, 7, 300]
    assert (read_header(batch).base_timestamp, read_header(batch).max_timestamp) == (100, 300)


def test_header_names_that_are_no_text_are_shown_and_kept_as_bytes() -> None:
    record = encode_record(0, 0, None, b"v", (("ab", b"1"),)).replace(b"ab", b"\xff\xfe")
    batch = batch_with(record)
    assert read_records(batch, max_bytes=LIMIT)[0].headers == (("\ufffd\ufffd", b"1"),)
    payload = payload_of(batch, read_header(batch), max_bytes=LIMIT)
    (span,) = spans(read_header(batch), payload)
    assert rebase(payload, span, timestamp_delta=0, offset_delta=0) == record


@given(rows, st.integers(-(1 << 62), 1 << 62), st.integers(0, 1 << 30))
def test_rebasing_changes_only_the_deltas(rows: list[Row], timestamp_delta: int, offset_delta: int) -> None:
    batch = batch_of(rows)
    payload = payload_of(batch, read_header(batch), max_bytes=LIMIT)
    for span, (_, key, value, headers) in zip(spans(read_header(batch), payload), rows, strict=True):
        moved = rebase(payload, span, timestamp_delta=timestamp_delta, offset_delta=offset_delta)
        assert moved == encode_record(offset_delta, timestamp_delta, key, value, headers)


def test_tombstone_is_told_from_an_empty_value() -> None:
    batch = batch_of([(0, b"k", None, ()), (0, b"k", b"", ())])
    payload = payload_of(batch, read_header(batch), max_bytes=LIMIT)
    assert [span.is_tombstone for span in spans(read_header(batch), payload)] == [True, False]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",  # a record of no bytes
        b"\x01",  # of minus one byte
        b"\xff\xff\xff\xff\x0f",  # of two billion
        b"\xff" * 11,  # a number without end
        b"\xff\xff\xff\xff\x7f",  # a length of 35 bits
        encode_record(0, 0, b"k", b"v")[:-1],
        encode_record(0, 0, b"k", b"v") + b"\x00",
        b"\x0e\x00\x00\x00\x80\x01\x01\x00\x00",  # a key that leaves its record
        b"\x10\x00\x00\x00\x01\x80\x80\x80\x01\x00",  # a value that does
        b"\x14\x00\x00\x00\x01\x01\x80\x80\x80\x80\x08\x00",  # 2^30 headers
        b"\x0e\x00\x00\x00\x01\x01\x01\x00",  # minus one header
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x00",  # a header without a name
    ],
)
def test_payload_that_lies_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_records(batch_with(payload), max_bytes=LIMIT)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, (1 << 31) - 1])
def test_record_count_that_lies_is_corrupt(count: int) -> None:
    payload = encode_record(0, 0, b"k", b"v") + encode_record(1, 0, b"k", b"v")
    with pytest.raises(CorruptBatch):
        read_records(batch_with(payload, record_count=count), max_bytes=LIMIT)


def test_cut_batch_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        read_records(simple_batch()[:-1], max_bytes=LIMIT)


def test_emptied_batch_has_no_records() -> None:
    assert read_records(batch_with(b"", record_count=0), max_bytes=LIMIT) == []


@given(st.binary(max_size=80), st.integers(0, 4), st.integers(-2, 5))
def test_random_payload_raises_nothing_but_corrupt_batch(payload: bytes, attributes: int, count: int) -> None:
    header = read_header(simple_batch())._replace(record_count=count, attributes=attributes)
    with contextlib.suppress(CorruptBatch):
        read_records(write_batch(header, payload), max_bytes=4096)


@given(rows, codecs, st.data())
def test_damaged_batch_raises_nothing_but_corrupt_batch(rows: list[Row], codec: Codec, data: st.DataObject) -> None:
    batch = batch_of(rows, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        read_records(batch, max_bytes=LIMIT)


@pytest.mark.parametrize("codec", Codec)
def test_reading_stops_at_the_limit(codec: Codec) -> None:
    batch = batch_of([(0, None, b"\0" * 100_000, ())], codec=codec)
    assert len(read_records(batch, max_bytes=100_100)) == 1
    with pytest.raises(ExpandsTooFar):
        read_records(batch, max_bytes=100_000)


def test_compressed_payload_is_what_the_codec_says() -> None:
    batch = batch_of([(0, b"k", b"v", ())], codec=Codec.GZIP)
    assert batch[HEADER_SIZE:] == compress(Codec.GZIP, encode_record(0, 0, b"k", b"v"))

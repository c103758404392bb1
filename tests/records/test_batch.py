"""The batch header: bytes, properties, stamping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import Row, batch_of, codecs, rows, simple_batch
from tidelog.model import TimestampType
from tidelog.records import (
    HEADER_SIZE,
    Codec,
    CorruptBatch,
    Record,
    RecordBatchBuilder,
    crc_holds,
    headers,
    read_header,
    read_records,
    sequence_after,
    stamp,
    stamp_append_time,
)


def two_records() -> bytearray:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=3, base_sequence=11, is_transactional=True)
    builder.append(timestamp_ms=1_700_000_000_000, key=b"k", value=b"v", headers=(("h", b"1"),))
    builder.append(timestamp_ms=1_700_000_000_005, key=None, value=None)
    return builder.build()


def test_header_fields_lie_where_the_format_says() -> None:
    batch = two_records()
    assert batch[:17].hex() == "0000000000000000" + f"{len(batch) - 12:08x}" + "ffffffff" + "02"
    assert batch[21:HEADER_SIZE].hex(" ", -4) == (
        "00100000 00010000 018bcfe5 68000000 018bcfe5 68050000 00000000 00070003 0000000b 00000002"
    )


def test_records_are_encoded_with_zigzag_varints() -> None:
    first = "18" + "00" + "00" + "00" + "026b" + "0276" + "02" + "0268" + "0231"
    second = "0c" + "00" + "0a" + "02" + "01" + "01" + "00"
    assert two_records()[HEADER_SIZE:].hex() == first + second


def test_batch_written_by_a_kafka_broker_is_read() -> None:
    data = bytes.fromhex(
        "0000000000000000"  # base offset
        "0000003b"  # length
        "00000001"  # leader epoch
        "02"  # magic
        "0318a270"  # checksum
        "0000"  # attributes
        "00000000"  # last offset delta
        "0000015dff7b063c"  # base timestamp
        "0000015dff7b063c"  # max timestamp
        "ffffffffffffffff"  # producer id
        "ffff"  # producer epoch
        "ffffffff"  # base sequence
        "00000001"  # record count
        "12000000010631323300"  # no key, value "123", no headers
    )
    header = read_header(data)
    assert (header.size, header.record_count, header.leader_epoch) == (len(data), 1, 1)
    assert crc_holds(data, 0, header)
    assert read_records(data, max_bytes=100) == [Record(0, 1_503_229_838_908, None, b"123")]


def test_header_properties_follow_from_the_fields() -> None:
    batch = two_records()
    stamp(batch, 0, base_offset=500, leader_epoch=9)
    header = read_header(batch)
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (len(batch), 501, 502, 12)
    assert (header.codec, header.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.is_control, header.has_delete_horizon) == (True, False, False)
    assert (header.has_producer, header.leader_epoch) == (True, 9)


def test_sequence_wraps_to_zero_after_the_largest() -> None:
    header = read_header(simple_batch())._replace(base_sequence=2_147_483_647, last_offset_delta=1)
    assert header.last_sequence == 0
    assert sequence_after(2_147_483_647) == 0
    assert sequence_after(5, 3) == 8


def test_batch_without_sequence_has_no_last_sequence() -> None:
    assert read_header(simple_batch()).last_sequence == -1


@given(rows, codecs, st.integers(0, 1 << 62), st.integers(0, 1 << 30))
def test_stamping_offset_and_epoch_keeps_the_checksum(rows: list[Row], codec: Codec, offset: int, epoch: int) -> None:
    batch = batch_of(rows, codec=codec)
    stamp(batch, 0, base_offset=offset, leader_epoch=epoch)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)
    assert crc_holds(batch, 0, header)


def test_append_time_holds_for_all_records_and_renews_the_checksum() -> None:
    data = bytearray(5) + two_records()
    stamp_append_time(data, 5, append_time_ms=42)
    header = read_header(data, 5)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_holds(data, 5, header)
    assert [record.timestamp_ms for record in read_records(data[5:], max_bytes=100)] == [42, 42]


def test_headers_walks_whole_batches_and_passes_over_a_partial_tail() -> None:
    one, two = simple_batch(), two_records()
    data = bytes(one + two + one[:-1])
    assert [(position, header.size) for position, header in headers(data)] == [(0, len(one)), (len(one), len(two))]
    assert list(headers(data, len(one) + len(two))) == []


def test_headers_raises_for_what_is_no_batch_in_the_middle() -> None:
    with pytest.raises(CorruptBatch, match="magic 0"):
        list(headers(simple_batch() + bytes(100)))


@pytest.mark.parametrize("size", [0, 1, 60])
def test_short_header_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch, match="no whole batch header"):
        read_header(simple_batch()[:size])


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_refused(magic: int) -> None:
    batch = simple_batch()
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        read_header(batch)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 48])
def test_length_below_a_header_is_corrupt(length: int) -> None:
    batch = simple_batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match="length"):
        read_header(batch)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_is_corrupt(number: int) -> None:
    batch = simple_batch()
    batch[22] = number
    with pytest.raises(CorruptBatch, match=f"codec {number}"):
        _ = read_header(batch).codec


@given(st.data())
def test_any_flipped_bit_under_the_checksum_is_noticed(data: st.DataObject) -> None:
    batch = two_records()
    position = data.draw(st.integers(17, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    assert not crc_holds(batch, 0, read_header(batch))


def test_checksum_of_a_cut_batch_does_not_hold() -> None:
    batch = two_records()
    assert not crc_holds(batch[:-1], 0, read_header(batch))

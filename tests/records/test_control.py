"""Transaction markers."""

from __future__ import annotations

import pytest

from tests.records.batches import simple_batch
from tidelog.records import (
    Codec,
    CorruptBatch,
    Marker,
    MarkerType,
    RecordHeader,
    build_marker,
    compress,
    crc_holds,
    read_header,
    read_marker,
)
from tidelog.records.batch import new_header, write_batch
from tidelog.records.record import encode_record


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    header = new_header(attributes=0x30, last_offset_delta=0, base_timestamp=0, max_timestamp=0, record_count=1)
    return write_batch(header, encode_record(0, 0, key, value))


@pytest.mark.parametrize("marker_type", [MarkerType.ABORT, MarkerType.COMMIT])
def test_marker_tells_decision_and_coordinator_epoch(marker_type: MarkerType) -> None:
    batch = build_marker(marker_type, producer_id=5, producer_epoch=2, coordinator_epoch=9, timestamp_ms=77)
    header = read_header(batch)
    assert read_marker(batch) == Marker(marker_type, 9)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp) == (5, 2, 77)
    assert crc_holds(batch, 0, header)


def test_marker_bytes_are_kafkas() -> None:
    batch = build_marker(MarkerType.COMMIT, producer_id=5, producer_epoch=2, coordinator_epoch=9, timestamp_ms=77)
    assert batch[61:].hex() == "20" + "000000" + "08" + "00000001" + "0c" + "000000000009" + "00"


def test_types_of_others_are_unknown_not_wrong() -> None:
    assert read_marker(control_batch(b"\0\0\0\x02", b"whatever")).type is MarkerType.UNKNOWN


def test_later_versions_may_append_fields() -> None:
    batch = control_batch(b"\0\x01\0\x01extra", b"\0\x01\0\0\0\x09extra")
    assert read_marker(batch) == Marker(MarkerType.COMMIT, 9)


@pytest.mark.parametrize("headers", [(), (("h", b"v"),)])
@pytest.mark.parametrize("timestamp_delta", [0, 1, 1_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_marker_says_the_same_however_it_is_laid_out(
    headers: tuple[RecordHeader, ...], timestamp_delta: int, codec: Codec
) -> None:
    header = new_header(attributes=0x30 | codec, last_offset_delta=0, base_timestamp=0, max_timestamp=0, record_count=1)
    record = encode_record(0, timestamp_delta, b"\0\0\0\x01", b"\0\0\0\0\0\x09", headers)
    assert read_marker(write_batch(header, compress(codec, record))) == Marker(MarkerType.COMMIT, 9)


def test_a_marker_of_the_usual_size_with_more_after_it_is_corrupt() -> None:
    batch = build_marker(MarkerType.COMMIT, producer_id=5, producer_epoch=2, coordinator_epoch=9, timestamp_ms=77)
    batch[-1] = 2  # It claims a header that is not there.
    with pytest.raises(CorruptBatch):
        read_marker(batch)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0\0\0", b"\0\0\0\0\0\x09"),
        (b"\0\0\0\x01", None),
        (b"\0\0\0\x01", b"\0\0\0\0\0"),
        (b"\xff\xff\0\x01", b"\0\0\0\0\0\x09"),
        (b"\0\0\0\x01", b"\xff\xff\0\0\0\x09"),
    ],
)
def test_marker_without_its_fields_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        read_marker(control_batch(key, value))


def test_emptied_control_batch_is_no_marker() -> None:
    header = read_header(simple_batch())._replace(record_count=0, attributes=0x30)
    with pytest.raises(CorruptBatch, match="no record"):
        read_marker(write_batch(header, b""))

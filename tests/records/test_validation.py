"""What a leader says to a client's batch, check by check in Kafka's order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import Row, batch_of, codecs, rows, simple_batch
from tidelog.model import ApiError, ErrorCode, TimestampType
from tidelog.records import (
    BatchHeader,
    Codec,
    InvalidRecords,
    ProduceRules,
    RecordBatchBuilder,
    RecordError,
    crc_holds,
    is_laborious,
    is_small,
    read_header,
    read_records,
    validate_produced,
)
from tidelog.records.batch import write_batch
from tidelog.records.record import encode_record
from tidelog.records.validation import DECODED_RECORDS_MAX

RULES = ProduceRules(max_message_bytes=100_000, segment_bytes=1_000_000)
COMPACTED = replace(RULES, is_compacted=True)
BOUNDED = replace(RULES, timestamp_before_max_ms=1_000, timestamp_after_max_ms=100)
NOW = 10_000


def refusal(batch: bytearray, rules: ProduceRules = RULES) -> ApiError:
    with pytest.raises(ApiError) as caught:
        validate_produced(batch, rules, NOW)
    return caught.value


def with_header(**fields: int) -> bytearray:
    """A batch whose header lies but whose checksum holds."""
    batch = simple_batch()
    return write_batch(read_header(batch)._replace(**fields), batch[61:])


def test_plain_batch_passes_untouched() -> None:
    batch = simple_batch()
    before = bytes(batch)
    validated = validate_produced(batch, RULES, NOW)
    assert validated.batch is batch
    assert batch == before
    assert (validated.header, validated.append_time_ms) == (read_header(before), -1)


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60])
def test_no_whole_batch_is_an_invalid_record(size: int) -> None:
    assert refusal(simple_batch()[:size]).code is ErrorCode.INVALID_RECORD


def test_cut_batch_is_an_invalid_record() -> None:
    assert refusal(simple_batch()[:-1]).code is ErrorCode.INVALID_RECORD


def test_second_batch_is_an_invalid_record() -> None:
    assert refusal(simple_batch() + simple_batch()).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_older_and_newer_formats_are_invalid_records(magic: int) -> None:
    batch = simple_batch()
    batch[16] = magic
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_length_below_a_header_is_a_corrupt_message(length: int) -> None:
    batch = simple_batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_produce_v7() -> None:
    batch = batch_of([(0, None, b"v", ())], codec=Codec.ZSTD)
    assert refusal(batch, replace(RULES, allows_zstd=False)).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_size_is_judged_before_the_checksum() -> None:
    batch = simple_batch()
    batch[-1] ^= 1
    assert refusal(batch, replace(RULES, max_message_bytes=len(batch) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_of_exactly_the_largest_size_passes() -> None:
    batch = simple_batch()
    validate_produced(batch, replace(RULES, max_message_bytes=len(batch), segment_bytes=len(batch)), NOW)


def test_wrong_checksum_is_a_corrupt_message() -> None:
    batch = simple_batch()
    batch[-1] ^= 1
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "lie",
    [
        {"base_offset": 1},
        {"record_count": 0},
        {"record_count": -1},
        {"record_count": (1 << 31) - 1},
        {"record_count": 3},
        {"last_offset_delta": 2},
        {"last_offset_delta": -1},
        {"attributes": 0x20},
        {"attributes": 0x30, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0},
        {"attributes": 0x10},
        {"attributes": 0x40},
        {"attributes": 5},
        {"attributes": 7},
        {"producer_id": 4, "producer_epoch": 0},
        {"producer_id": 4, "base_sequence": 0},
        {"producer_id": -2},
    ],
)
def test_header_that_no_client_may_send_is_an_invalid_record(lie: dict[str, int]) -> None:
    assert refusal(with_header(**lie)).code is ErrorCode.INVALID_RECORD


def test_compacted_topic_names_the_records_without_keys() -> None:
    error = refusal(simple_batch(keys=[b"a", None, b"c", None]), COMPACTED)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [found.batch_index for found in error.record_errors] == [1, 3]


def test_compacted_topic_takes_empty_keys() -> None:
    validate_produced(simple_batch(keys=[b""]), COMPACTED, NOW)


def test_topic_that_asks_nothing_does_not_look_at_records() -> None:
    batch = write_batch(read_header(simple_batch()), b"no records at all")
    assert validate_produced(batch, RULES, NOW).batch is batch
    assert refusal(batch, replace(RULES, wants_every_record_checked=True)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("timestamp", "is_fine"), [(8_999, False), (9_000, True), (10_100, True), (10_101, False)])
def test_timestamps_are_bounded_on_both_sides(timestamp: int, is_fine: bool) -> None:
    batch = batch_of([(NOW, b"k", b"v", ()), (timestamp, b"k", b"v", ())])
    if is_fine:
        validate_produced(batch, BOUNDED, NOW)
        return
    error = refusal(batch, BOUNDED)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert error.record_errors == (RecordError(1, f"timestamp {timestamp} is outside of [9000, 10100]"),)


def test_future_alone_is_judged_by_the_header_without_decoding() -> None:
    rules = replace(RULES, timestamp_after_max_ms=100)
    unreadable = write_batch(read_header(simple_batch(timestamp_ms=NOW)), b"no records at all")
    validate_produced(unreadable, rules, NOW)
    error = refusal(simple_batch(timestamp_ms=NOW + 101), rules)
    assert isinstance(error, InvalidRecords)
    assert [found.batch_index for found in error.record_errors] == [0, 1]


def test_records_without_timestamp_are_not_bounded() -> None:
    validate_produced(batch_of([(-1, b"k", b"v", ())]), BOUNDED, NOW)


def test_append_time_topics_bound_nothing() -> None:
    rules = replace(BOUNDED, timestamp_type=TimestampType.LOG_APPEND_TIME)
    validate_produced(simple_batch(timestamp_ms=0), rules, NOW)


def test_missing_keys_weigh_more_than_wrong_times() -> None:
    rules = replace(BOUNDED, is_compacted=True)
    error = refusal(batch_of([(0, b"k", b"v", ()), (NOW, None, b"v", ())]), rules)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [found.batch_index for found in error.record_errors] == [0, 1]


def test_list_of_record_errors_is_bounded() -> None:
    error = refusal(simple_batch(keys=[None] * 1_500), COMPACTED)
    assert isinstance(error, InvalidRecords)
    assert len(error.record_errors) == 1_000


@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_client_may_not_set_the_append_time_bit(timestamp_type: TimestampType) -> None:
    error = refusal(with_header(attributes=0x08), replace(RULES, timestamp_type=timestamp_type))
    assert error.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", Codec)
def test_append_time_is_stamped_without_decoding(codec: Codec) -> None:
    batch = batch_of([(1, b"k", b"v", ()), (2, b"k", b"w", ())], codec=codec)
    body = bytes(batch[61:])
    validated = validate_produced(batch, replace(RULES, timestamp_type=TimestampType.LOG_APPEND_TIME), NOW)
    assert validated.append_time_ms == NOW
    assert validated.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_holds(batch, 0, validated.header)
    assert batch[61:] == body
    assert [record.timestamp_ms for record in read_records(batch, max_bytes=1000)] == [NOW, NOW]


def test_wrong_largest_timestamp_is_put_right_where_records_are_read() -> None:
    validated = validate_produced(with_header(max_timestamp=5), COMPACTED, NOW)
    assert validated.header.max_timestamp == 1_000
    assert crc_holds(validated.batch, 0, validated.header)


@given(rows, codecs, codecs)
def test_topic_codec_replaces_the_producers(rows: list[Row], theirs: Codec, ours: Codec) -> None:
    batch = batch_of(rows, codec=theirs)
    validated = validate_produced(batch, replace(RULES, codec=ours, max_message_bytes=1 << 20), NOW)
    assert validated.header.codec is ours
    assert crc_holds(validated.batch, 0, validated.header)
    assert read_records(validated.batch, max_bytes=1 << 20) == read_records(batch, max_bytes=1 << 20)
    assert (validated.batch is batch) == (theirs is ours)


def test_producer_fields_survive_another_codec() -> None:
    builder = RecordBatchBuilder(producer_id=3, producer_epoch=1, base_sequence=9, is_transactional=True)
    builder.append(timestamp_ms=5, key=b"k", value=b"v" * 100)
    header = validate_produced(builder.build(), replace(RULES, codec=Codec.ZSTD), NOW).header
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (3, 1, 9, True)


def test_size_is_judged_again_after_recompression() -> None:
    batch = batch_of([(0, b"k", bytes(5_000), ())], codec=Codec.ZSTD)
    assert refusal(batch, replace(RULES, codec=Codec.NONE, max_message_bytes=4_000)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_bomb_is_a_message_too_large() -> None:
    batch = batch_of([(0, b"k", bytes(17 << 20), ())], codec=Codec.ZSTD)
    error = refusal(batch, replace(COMPACTED, max_message_bytes=1 << 20))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_payload_that_does_not_decompress_is_an_invalid_record() -> None:
    assert refusal(with_header(attributes=int(Codec.ZSTD)), COMPACTED).code is ErrorCode.INVALID_RECORD


def test_offset_deltas_with_gaps_are_renumbered() -> None:
    payload = encode_record(4, 0, b"a", b"1", (("h", None),)) + encode_record(9, 7, b"b", None)
    batch = write_batch(read_header(simple_batch()), payload)
    validated = validate_produced(batch, COMPACTED, NOW)
    found = read_records(validated.batch, max_bytes=1_000)
    assert [(record.offset, record.timestamp_ms, record.key) for record in found] == [
        (0, 1_000, b"a"),
        (1, 1_007, b"b"),
    ]
    assert found[0].headers == (("h", None),)


def test_batch_larger_than_a_segment_is_a_record_list_too_large() -> None:
    batch = simple_batch()
    assert refusal(batch, replace(RULES, segment_bytes=len(batch) - 1)).code is ErrorCode.RECORD_LIST_TOO_LARGE


int64s = st.integers(-(1 << 63), (1 << 63) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int16s = st.integers(-(1 << 15), (1 << 15) - 1)
lies = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": int64s,
        "leader_epoch": int32s,
        "attributes": int16s | st.integers(0, 127),
        "last_offset_delta": int32s,
        "base_timestamp": int64s,
        "max_timestamp": int64s,
        "producer_id": int64s,
        "producer_epoch": int16s,
        "base_sequence": int32s,
        "record_count": int32s,
    },
)
any_rules = st.builds(
    ProduceRules,
    max_message_bytes=st.just(100_000),
    segment_bytes=st.just(100_000),
    codec=st.none() | codecs,
    is_compacted=st.booleans(),
    timestamp_type=st.sampled_from(TimestampType),
    timestamp_before_max_ms=st.none() | st.integers(0, 10_000),
    timestamp_after_max_ms=st.none() | st.integers(0, 10_000),
    wants_every_record_checked=st.booleans(),
)


@given(rows, codecs, lies, any_rules, st.binary(max_size=30) | st.none())
def test_hostile_batch_is_refused_or_comes_out_whole(
    rows: list[Row], codec: Codec, lie: dict[str, int], rules: ProduceRules, payload: bytes | None
) -> None:
    honest = batch_of(rows, codec=codec)
    batch = write_batch(read_header(honest)._replace(**lie), honest[61:] if payload is None else payload)
    try:
        validated = validate_produced(batch, rules, NOW)
    except ApiError:
        return
    header: BatchHeader = validated.header
    assert header == read_header(validated.batch)
    assert crc_holds(validated.batch, 0, header)
    assert header.size == len(validated.batch)
    assert header.last_offset_delta + 1 == header.record_count > 0
    assert not header.is_control
    assert not header.has_delete_horizon


@given(st.binary(max_size=120), any_rules)
def test_random_bytes_are_refused(data: bytes, rules: ProduceRules) -> None:
    with pytest.raises(ApiError):
        validate_produced(bytearray(data), rules, NOW)


@pytest.mark.parametrize(
    ("record_count", "codec", "changes", "is_long"),
    [
        (2_000, Codec.NONE, {}, False),  # Nobody looks at the records.
        (2_000, Codec.GZIP, {}, False),
        (900, Codec.NONE, {"is_compacted": True}, False),
        (2_000, Codec.NONE, {"is_compacted": True}, True),
        (900, Codec.GZIP, {"is_compacted": True}, False),  # Few bytes.
        (900, Codec.NONE, {"codec": Codec.GZIP}, True),
        (900, Codec.NONE, {"wants_every_record_checked": True}, False),
        (2_000, Codec.NONE, {"wants_every_record_checked": True}, True),
        (2_000, Codec.NONE, {"timestamp_after_max_ms": 0}, True),  # To say which records are untimely.
    ],
)
def test_what_takes_long_to_validate_is_known_by_its_header(
    record_count: int, codec: Codec, changes: dict[str, object], is_long: bool
) -> None:
    batch = batch_of([(1_000, b"k", b"v" * 10, ()) for _ in range(record_count)], codec=codec)
    rules = replace(RULES, **changes)  # type: ignore[arg-type]
    assert is_laborious(batch, rules, now_ms=-(10**15)) is is_long


def test_a_cut_batch_does_not_take_long() -> None:
    rules = replace(RULES, is_compacted=True)
    assert not is_laborious(bytearray(5), rules, now_ms=0)
    assert not is_laborious(bytearray(61), rules, now_ms=0)


def test_more_records_than_are_looked_at_are_too_large_before_anything_is_expanded() -> None:
    count = DECODED_RECORDS_MAX + 1
    batch = with_header(record_count=count, last_offset_delta=count - 1)
    assert refusal(batch, replace(RULES, is_compacted=True)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert validate_produced(batch, RULES, NOW).header.record_count == count


def test_a_batch_is_small_by_its_bytes_and_by_the_records_it_claims() -> None:
    assert is_small(built(b"v"))
    assert not is_small(built(bytes(5_000)))
    assert not is_small(built(*[b""] * 1_001, codec=Codec.GZIP))
    assert not is_small(bytearray(5))


def built(*values: bytes, codec: Codec = Codec.NONE) -> bytearray:
    builder = RecordBatchBuilder(codec=codec)
    for value in values:
        builder.append(timestamp_ms=0, key=None, value=value)
    return builder.build()

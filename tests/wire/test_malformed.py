from __future__ import annotations

import pytest

from tests.wire.oracle import Case, all_cases
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decode_request, decode_response, encode_request
from tidelog.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_offsets import ListOffsetsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

METADATA_V12_ALL = "00 01 00 00"  # all topics, auto-creation, no operations, no tags


def malformed(body: str, complaint: str, key: ApiKey = ApiKey.METADATA, version: int = 12) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decode_request(key, version, bytes.fromhex(body))


def test_a_count_of_4294967295_is_refused_before_anything_is_allocated() -> None:
    malformed("ff ff ff ff 0f", "a count of 4294967294 at byte 0, where 0 bytes remain")


def test_a_count_is_bounded_by_the_smallest_elements_that_the_rest_can_hold() -> None:
    malformed("03" + "00" * 35, "a count of 2 at byte 0, where 35 bytes remain")


def test_a_varint_may_be_padded_but_not_exceed_32_bits() -> None:
    expected = decode_request(ApiKey.METADATA, 12, bytes.fromhex(METADATA_V12_ALL))
    assert decode_request(ApiKey.METADATA, 12, bytes.fromhex("80 80 80 00 01 00 00")) == expected
    malformed("ff ff ff ff 1f", "a varint at byte 0 exceeds 32 bits")
    malformed("80 80 80 80 80 00 01 00 00", "a varint at byte 0 exceeds 32 bits")


def test_a_string_longer_than_the_rest_is_refused() -> None:
    malformed("02" + "00" * 16 + "7f 61 00", "a length of 126 at byte 17, where 2 bytes remain")


def test_negative_lengths_and_counts_other_than_null_are_refused() -> None:
    malformed("ff ff ff fe", "a count of -2", version=4)
    malformed("00 00 00 01 ff fe 00 00", "a length of -2", version=4)


def test_null_where_null_is_not_allowed_is_refused() -> None:
    malformed("ff ff ff ff", "a null array at byte 0", version=0)
    malformed("00 00 00 01 ff ff 00 00", "a null string at byte 4", version=4)
    malformed("00 ff ff 00 00 00 00 00", "a null array", key=ApiKey.PRODUCE, version=9)
    malformed("02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", "a null string", version=9)


def test_bytes_after_a_request_are_ignored_because_librdkafka_sends_some() -> None:
    expected = decode_request(ApiKey.METADATA, 13, bytes.fromhex(METADATA_V12_ALL))
    assert decode_request(ApiKey.METADATA, 13, bytes.fromhex(METADATA_V12_ALL + "00 00 00")) == expected


def test_bytes_after_a_response_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="ApiVersionsResponse v0 is followed by 1 bytes"):
        decode_response(ApiKey.API_VERSIONS, 0, bytes.fromhex("00 00 00 00 00 00 00"))


def test_a_body_cut_short_is_refused() -> None:
    malformed("00 01", "MetadataRequest v12 ends within a field")
    malformed("", "MetadataRequest v12 ends within a field")


def test_text_that_is_not_utf8_is_refused() -> None:
    malformed("02" + "00" * 16 + "02 ff 00 01 00 00", "MetadataRequest v12 has text that is not UTF-8")


def test_unknown_tagged_fields_are_skipped() -> None:
    expected = decode_request(ApiKey.METADATA, 12, bytes.fromhex(METADATA_V12_ALL))
    assert decode_request(ApiKey.METADATA, 12, bytes.fromhex("00 01 00 02 00 01 aa 07 02 bbcc")) == expected


def test_tags_out_of_order_or_twice_are_refused() -> None:
    malformed("00 01 00 02 07 00 03 00", "tag 3 at byte 6 follows tag 7")
    malformed("00 01 00 02 07 00 07 00", "tag 7 at byte 6 follows tag 7")


def test_a_tagged_field_is_as_long_as_its_size_says() -> None:
    malformed("00 01 00 01 07 05 aa", "tag 7 at byte 4 has 5 bytes, where 1 remain")
    body = "00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01 01 00 03 02 61 62"
    malformed(body, "a tagged field has 3 bytes, of which 2 are its value", key=ApiKey.FETCH, version=17)


def test_a_tag_of_a_later_version_is_unknown_to_an_earlier_one() -> None:
    end_of_v14 = "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01 01 01 01 aa"
    decode_request(ApiKey.FETCH, 14, bytes.fromhex(end_of_v14))
    malformed(end_of_v14[8:], "ends within a field", key=ApiKey.FETCH, version=15)


@pytest.mark.parametrize(("key", "version"), [(ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 14), (ApiKey.ENVELOPE, 0)])
def test_what_the_table_does_not_serve_is_unsupported(key: ApiKey, version: int) -> None:
    with pytest.raises(UnsupportedRequest, match=f"{key.name} v{version} is not served"):
        decode_request(key, version, b"")


@pytest.mark.parametrize("case", list(all_cases()), ids=str)
def test_an_empty_body_is_malformed_unless_the_message_has_no_fields(case: Case) -> None:
    if case.is_request and case.version < 3 and case.key in (ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS):
        assert case.decode(b"") == case.our_type()
    else:
        with pytest.raises(MalformedMessage):
            case.decode(b"")


def test_produced_records_are_writable_slices_of_the_frame() -> None:
    topic = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=b"records"),))
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=(topic,))
    frame = bytearray(b"".join(encode_request(ApiKey.PRODUCE, 9, request)))
    decoded = decode_request(ApiKey.PRODUCE, 9, frame)
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:1] = b"R"
    assert b"Records" in frame


def test_an_error_code_newer_than_ours_is_an_unknown_server_error() -> None:
    response = decode_response(ApiKey.INIT_PRODUCER_ID, 0, bytes.fromhex("00000000 7ffe ffffffffffffffff ffff"))
    assert getattr(response, "error_code", None) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [
        (ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1)),
        (ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topic_names=("t",), timeout_ms=1)),
        (
            ApiKey.INIT_PRODUCER_ID,
            2,
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1, producer_id=7),
        ),
        (ApiKey.LIST_OFFSETS, 1, ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=())),
        (ApiKey.METADATA, 3, MetadataRequest(topics=None, allow_auto_topic_creation=False)),
        (ApiKey.METADATA, 0, MetadataRequest(topics=None)),
        (ApiKey.METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name=None),))),
        (ApiKey.METADATA, 4, MetadataRequest(topics=(MetadataRequestTopic(name="x" * 40_000),))),
        (ApiKey.METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name="\ud800"),))),
        (ApiKey.PRODUCE, 9, ProduceRequest(acks=1 << 40, timeout_ms=1, topic_data=())),
    ],
)
def test_what_a_version_cannot_say_is_refused_rather_than_dropped(key: ApiKey, version: int, request_: object) -> None:
    with pytest.raises(UnencodableMessage):
        encode_request(key, version, request_)  # type: ignore[arg-type]

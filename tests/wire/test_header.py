from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.serial import entity_writer

from tidelog.wire.api import ApiKey
from tidelog.wire.errors import MalformedMessage, UnsupportedRequest
from tidelog.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    read_correlation_id,
)

CLIENT_IDS = st.none() | st.text(max_size=20)
CORRELATION_IDS = st.integers(-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(("version", "kio_type"), [(8, KioRequestHeaderV1), (9, KioRequestHeaderV2)])
@given(client_id=CLIENT_IDS, correlation_id=CORRELATION_IDS)
def test_request_header_is_the_one_kio_writes(
    version: int, kio_type: Any, client_id: str | None, correlation_id: int
) -> None:
    ours = RequestHeader(ApiKey.METADATA, version, correlation_id, client_id)
    theirs = kio_type(
        request_api_key=3, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    expected = io.BytesIO()
    entity_writer(kio_type)(expected, theirs)
    assert encode_request_header(ours) == expected.getvalue()
    assert decode_request_header(expected.getvalue() + b"body") == (ours, len(expected.getvalue()))


def test_unknown_tags_of_a_flexible_request_header_are_skipped() -> None:
    frame = bytes.fromhex("0003 000c 00000007 ffff 01 05 02 aabb") + b"body"
    header, position = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.METADATA, 12, 7, None)
    assert frame[position:] == b"body"


def test_header_of_an_api_versions_request_from_the_future_is_still_read() -> None:
    header, _ = decode_request_header(bytes.fromhex("0012 0063 00000007 0003") + b"abc" + b"\xff\xff\xff")
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 7, "abc")


def test_a_key_that_kafka_does_not_have_is_unsupported() -> None:
    with pytest.raises(UnsupportedRequest, match="no API has the key 12345"):
        decode_request_header(bytes.fromhex("3039 0000 00000007 ffff"))


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("", "ends within its header"),
        ("0003 000c 00000007", "ends within its header"),
        ("0003 000c 00000007 0005 6162", "exceeds the frame"),
        ("0003 000c 00000007 fffe", "client id of -2"),
        ("0003 000c 00000007 0001 ff", "not UTF-8"),
        ("0003 000c 00000007 ffff", "ends within its header"),
        ("0003 000c 00000007 ffff 01 00 7f", "has 127 bytes"),
    ],
)
def test_a_damaged_request_header_is_malformed(frame: str, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decode_request_header(bytes.fromhex(frame))


def test_response_header_has_a_tagged_section_in_flexible_versions_except_for_api_versions() -> None:
    assert encode_response_header(ApiKey.METADATA, 8, 7) == bytes.fromhex("00000007")
    assert encode_response_header(ApiKey.METADATA, 9, 7) == bytes.fromhex("00000007 00")
    assert encode_response_header(ApiKey.API_VERSIONS, 4, 7) == bytes.fromhex("00000007")


def test_response_header_reads_back() -> None:
    assert decode_response_header(ApiKey.METADATA, 8, b"\0\0\0\7body") == (7, 4)
    assert decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\7\1\0\1xbody") == (7, 8)
    assert read_correlation_id(b"\0\0\0\7body") == 7


def test_a_damaged_response_header_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="ends within its header"):
        read_correlation_id(b"\0\0\0")
    with pytest.raises(MalformedMessage, match="ends within its header"):
        decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\7")

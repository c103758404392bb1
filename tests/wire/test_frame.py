from __future__ import annotations

import pytest

from tidelog.model import ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.codec import decode_request, decode_response
from tidelog.wire.frame import encode_request_frame, encode_response_frame, encode_unsupported_version_frame
from tidelog.wire.header import RequestHeader, decode_request_header, decode_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def test_api_versions_request_frame_is_these_bytes() -> None:
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
    frame = b"".join(encode_request_frame(RequestHeader(ApiKey.API_VERSIONS, 3, 1, "me"), request))
    assert frame == bytes.fromhex("00000018 0012 0003 00000001 0002 6d65 00 08 7469 6465 6c6f 67 02 31 00")


def test_request_frame_reads_back() -> None:
    header = RequestHeader(ApiKey.API_VERSIONS, 3, 1, "me")
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
    frame = b"".join(encode_request_frame(header, request))[4:]
    decoded, position = decode_request_header(frame)
    assert decoded == header
    assert decode_request(header.api_key, header.api_version, frame[position:]) == request


def test_response_frame_carries_its_own_size() -> None:
    response = InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=7, producer_epoch=0)
    frame = b"".join(encode_response_frame(RequestHeader(ApiKey.INIT_PRODUCER_ID, 4, 9, None), response))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert frame[4:9] == bytes.fromhex("00000009 00")


def test_records_are_pieces_of_the_frame_and_not_copied() -> None:
    records = bytearray(b"r" * 1000)
    topic = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=records),))
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=(topic,))
    frame = encode_request_frame(RequestHeader(ApiKey.PRODUCE, 9, 1, None), request)
    assert any(piece is records for piece in frame)
    assert int.from_bytes(frame[0][:4]) == sum(map(len, frame)) - 4


@pytest.mark.parametrize("asked", [0, 3, 4])
def test_unsupported_api_versions_is_answered_in_version_zero_and_understood_whatever_was_asked(asked: int) -> None:
    frame = b"".join(encode_unsupported_version_frame(7))[4:]
    correlation_id, position = decode_response_header(ApiKey.API_VERSIONS, asked, frame)
    served = API_TABLE[ApiKey.API_VERSIONS].served
    assert correlation_id == 7
    assert decode_response(ApiKey.API_VERSIONS, asked, frame[position:]) == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=18, min_version=served.low, max_version=served.high),),
    )

"""Whole frames: size, header and body, ready to be written to a connection."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.model import ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey, Request, Response
from tidelog.wire.codec import encode_request, encode_response, encode_response_in_slices
from tidelog.wire.header import RequestHeader, encode_request_header, encode_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.primitives import INT32, Buffer


def encode_request_frame(header: RequestHeader, request: Request[Response]) -> list[Buffer]:
    """`request` as the pieces of one frame. Raises UnencodableMessage."""
    return _framed(encode_request_header(header), encode_request(header.api_key, header.api_version, request))


def encode_response_frame(header: RequestHeader, response: Response) -> list[Buffer]:
    """The answer to the request with `header`, as the pieces of one frame. Raises UnencodableMessage."""
    start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return _framed(start, encode_response(header.api_key, header.api_version, response))


def encode_response_frame_in_slices(header: RequestHeader, response: Response) -> Iterator[list[Buffer] | None]:
    """The same for answers that may be very long: the frame comes last, and before it a None whenever others may have a turn."""
    start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    for body in encode_response_in_slices(header.api_key, header.api_version, response):
        yield None if body is None else _framed(start, body)


def encode_unsupported_version_frame(correlation_id: int) -> list[Buffer]:
    """The answer to an ApiVersions request of a version not served: version 0, with the range that is (KIP-511)."""
    served = API_TABLE[ApiKey.API_VERSIONS].advertised
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=served.low, max_version=served.high),),
    )
    header = RequestHeader(ApiKey.API_VERSIONS, 0, correlation_id, None)
    return encode_response_frame(header, response)


def _framed(start: Buffer, body: list[Buffer]) -> list[Buffer]:
    size = len(start) + sum(map(len, body))
    return [INT32.pack(size) + start, *body]

"""What precedes a body: who asks what in which version, and which answer belongs to which question.

Request headers are version 1, or 2 with a tagged section where the request is flexible; the client id keeps its classic length in both,
so that a broker can read the header of a version it has never heard of. Response headers are version 0, or 1 with a tagged section;
ApiVersions always answers with 0, since its caller does not know yet what the broker speaks (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.errors import MalformedMessage, UnsupportedRequest
from tidelog.wire.primitives import INT32, Buffer, write_classic_string
from tidelog.wire.tagged import skip_tagged_fields

_REQUEST_HEADER: Final = struct.Struct(">hhih")
_REQUEST_START: Final = struct.Struct(">hhi")
_API_KEYS: Final = {int(key): key for key in ApiKey}
_FLEXIBLE: Final = frozenset(
    (key, version) for key, api in API_TABLE.items() for version in api.served if api.is_flexible(version)
)


class RequestHeader(NamedTuple):
    """A tuple because one is made per request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a frame (without its size) and where the body begins.

    A version that is not served still has a readable header; only where its body begins is then unknown and must not be used.
    Raises MalformedMessage, or UnsupportedRequest for a key that Kafka does not have.
    """
    view = memoryview(frame)
    try:
        number, version, correlation_id, length = _REQUEST_HEADER.unpack_from(view)
        key = _API_KEYS.get(number)
        if key is None:
            raise UnsupportedRequest(f"no API has the key {number}")
        position = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            if length > len(view) - position:
                raise MalformedMessage(f"a client id of {length} bytes exceeds the frame")
            client_id = str(view[position : position + length], "utf-8")
            position += length
        elif length < -1:
            raise MalformedMessage(f"a client id of {length} bytes")
        if _is_flexible(key, version):
            position = skip_tagged_fields(view, position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("a frame ends within its header") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("a client id is not UTF-8") from error
    return RequestHeader(key, version, correlation_id, client_id), position


def encode_request_header(header: RequestHeader) -> bytearray:
    """The bytes before the body of a request. The API and version must be in the table."""
    out = bytearray(_REQUEST_START.pack(header.api_key, header.api_version, header.correlation_id))
    write_classic_string(out, header.client_id)
    if _is_flexible(header.api_key, header.api_version):
        out.append(0)
    return out


def encode_response_header(key: ApiKey, version: int, correlation_id: int) -> bytes:
    """The bytes before the body of a response."""
    start = INT32.pack(correlation_id)
    return start + b"\0" if _has_tagged_response_header(key, version) else start


def read_correlation_id(frame: Buffer) -> int:
    """Which request a response frame answers. Raises MalformedMessage."""
    try:
        (correlation_id,) = INT32.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessage("a frame ends within its header") from error
    return int(correlation_id)


def decode_response_header(key: ApiKey, version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id of a response frame (without its size) and where the body begins. Raises MalformedMessage."""
    correlation_id = read_correlation_id(frame)
    if not _has_tagged_response_header(key, version):
        return correlation_id, INT32.size
    try:
        return correlation_id, skip_tagged_fields(memoryview(frame), INT32.size)
    except IndexError as error:
        raise MalformedMessage("a frame ends within its header") from error


def _is_flexible(key: ApiKey, version: int) -> bool:
    return (key, version) in _FLEXIBLE


def _has_tagged_response_header(key: ApiKey, version: int) -> bool:
    return key != ApiKey.API_VERSIONS and _is_flexible(key, version)

"""What a request may list is bounded by number too: a microsecond for each, however few bytes it takes."""

from __future__ import annotations

import struct

import pytest

from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decode_request
from tidelog.wire.elements import REQUEST_ELEMENTS_MAX
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.primitives import write_uvarint


def compact(count: int) -> bytes:
    out = bytearray()
    write_uvarint(out, count + 1)
    return bytes(out)


def fetch(topics: bytes, forgotten: bytes = b"\1") -> bytes:
    return struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + topics + forgotten + b"\1\0"


PARTITION = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1) + b"\0"
MANY = REQUEST_ELEMENTS_MAX + 1
HALF = REQUEST_ELEMENTS_MAX // 2
TOO_MANY = {
    "metadata topics": (ApiKey.METADATA, 9, compact(MANY) + b"\1\0" * MANY + bytes(4)),
    "list offsets topics": (ApiKey.LIST_OFFSETS, 6, bytes(5) + compact(MANY) + b"\1\1\0" * MANY + b"\0"),
    "list offsets partitions of two topics": (
        ApiKey.LIST_OFFSETS,
        6,
        bytes(5) + compact(2) + (b"\2a" + compact(HALF) + (bytes(16) + b"\0") * HALF + b"\0") * 2 + b"\0",
    ),
    "create topics configs": (
        ApiKey.CREATE_TOPICS,
        5,
        compact(1) + b"\2a" + bytes(6) + b"\1" + compact(MANY) + b"\1\0\0" * MANY + b"\0" + bytes(6),
    ),
    "delete topics": (ApiKey.DELETE_TOPICS, 4, compact(MANY) + b"\1" * MANY + bytes(5)),
    "fetch topics": (ApiKey.FETCH, 12, fetch(compact(MANY) + b"\1\1\0" * MANY)),
    "fetch partitions": (ApiKey.FETCH, 12, fetch(compact(1) + b"\2a" + compact(MANY) + PARTITION * MANY + b"\0")),
    "fetch forgotten": (ApiKey.FETCH, 12, fetch(b"\1", compact(MANY) + b"\1\1\0" * MANY)),
    "produce topics": (ApiKey.PRODUCE, 9, b"\0" + bytes(6) + compact(MANY) + b"\1\1\0" * MANY + b"\0"),
    "produce partitions": (
        ApiKey.PRODUCE,
        9,
        b"\0" + bytes(6) + compact(1) + b"\2a" + compact(MANY) + bytes(6) * MANY + b"\0\0",
    ),
}


@pytest.mark.parametrize(("key", "version", "body"), TOO_MANY.values(), ids=TOO_MANY.keys())
def test_a_request_that_lists_too_much_is_refused(key: ApiKey, version: int, body: bytes) -> None:
    with pytest.raises(MalformedMessage, match="elements or more"):
        decode_request(key, version, bytearray(body))


def test_as_many_as_are_allowed_decode_and_the_next_request_starts_to_count_anew() -> None:
    most = REQUEST_ELEMENTS_MAX
    for _ in range(2):
        metadata = decode_request(ApiKey.METADATA, 9, bytearray(compact(most) + b"\2a\0" * most + bytes(4)))
        assert isinstance(metadata, MetadataRequest)
        assert len(metadata.topics or ()) == most
    most -= 1
    body = fetch(compact(1) + b"\2a" + compact(most) + PARTITION * most + b"\0")
    request = decode_request(ApiKey.FETCH, 12, bytearray(body))
    assert isinstance(request, FetchRequest)
    assert len(request.topics[0].partitions) == most


def test_more_tagged_fields_than_any_struct_has_are_refused() -> None:
    tags = b"\x11" + b"".join(bytes([tag, 0]) for tag in range(17))
    with pytest.raises(MalformedMessage, match="17 tagged fields"):
        decode_request(ApiKey.METADATA, 9, bytearray(b"\1" + bytes(3) + tags))

"""Whether brokers know each other: asked of each of them with one Metadata request over a blocking socket.

The supervisor asks, which has no event loop to run our client in.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decode_response
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, decode_response_header
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.stream import FrameDecoder

WITHIN_S: Final = 0.25
_VERSION: Final = 12
_ANSWER_BYTES_MAX: Final = 1 << 20
_READ_BYTES: Final = 65_536


def are_together(addresses: Sequence[str]) -> bool:
    """Whether every broker at these addresses tells of as many brokers, one of them the controller."""
    return all(_sees(address, len(addresses)) for address in addresses)


def _sees(address: str, count: int) -> bool:
    try:
        known = _metadata(address)
    except (OSError, MalformedMessage):
        return False
    brokers = {broker.node_id for broker in known.brokers}
    return len(brokers) >= count and known.controller_id in brokers


def _metadata(address: str) -> MetadataResponse:
    host, _, port = address.rpartition(":")
    header = RequestHeader(ApiKey.METADATA, _VERSION, 0, "tidelog-up")
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    with socket.create_connection((host.strip("[]"), int(port)), timeout=WITHIN_S) as connection:
        connection.sendall(b"".join(map(bytes, encode_request_frame(header, request))))
        frame = _frame(connection)
    _, position = decode_response_header(ApiKey.METADATA, _VERSION, frame)
    response = decode_response(ApiKey.METADATA, _VERSION, memoryview(frame)[position:])
    if not isinstance(response, MetadataResponse):
        raise MalformedMessage("the answer to a Metadata request is something else")
    return response


def _frame(connection: socket.socket) -> bytearray:
    frames = FrameDecoder(size_max=_ANSWER_BYTES_MAX)
    while True:
        content = connection.recv(_READ_BYTES)
        if not content:
            raise ConnectionError("the broker closed the connection")
        for frame in frames.feed(content):
            return frame

"""A raw conversation with a broker: frames out, frames in, nothing clever."""

from __future__ import annotations

import socket
from typing import Self, TypeVar, cast
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.api import Request, Response, api_of
from tidelog.wire.codec import decode_response
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, decode_response_header
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

R = TypeVar("R", bound=Response)
TIMEOUT_S = 60.0


class Conversation:
    """One socket. `ask` is a request and its answer; `send` and `hear` are the halves."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def ask(self, request: Request[R], version: int) -> R:
        """Send and wait for the answer."""
        header = self.send(request, version)
        return cast("R", self.hear(header))

    def send(self, request: Request[R], version: int) -> RequestHeader:
        """Send without waiting."""
        self._correlation_id += 1
        header = RequestHeader(api_of(request).key, version, self._correlation_id, "conversation")
        self._socket.sendall(b"".join(encode_request_frame(header, request)))
        return header

    def hear(self, header: RequestHeader) -> Response:
        """The next answer, which must be the one to `header`."""
        frame = self.hear_frame()
        correlation_id, position = decode_response_header(header.api_key, header.api_version, frame)
        assert correlation_id == header.correlation_id
        return decode_response(header.api_key, header.api_version, memoryview(frame)[position:])

    def send_bytes(self, data: bytes) -> None:
        """Send whatever."""
        self._socket.sendall(data)

    def hear_frame(self) -> bytes:
        """The next frame without its size."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def is_closed_by_peer(self) -> bool:
        """Wait for the broker's next word; whether it is goodbye."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def hears_or_is_closed(self) -> bool:
        """Wait until the broker says anything at all, or hangs up; whether it spoke. Silence is an answer too: acks=0 has no other."""
        self._socket.settimeout(0.2)
        try:
            return self._socket.recv(1) != b""
        except (ConnectionResetError, TimeoutError):
            return False

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionResetError(f"closed after {len(received)} of {size} bytes")
            received += chunk
        return received


def topic_id_of(conversation: Conversation, topic: str) -> UUID:
    """Creates the topic as well."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic, topic_id=None),))
    (answer,) = conversation.ask(request, 13).topics
    assert (answer.error_code, len(answer.partitions)) == (ErrorCode.NONE, 1)
    assert answer.topic_id is not None
    return answer.topic_id

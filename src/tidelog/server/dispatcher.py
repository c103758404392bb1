"""From a frame to its answer: header, version, decode, handler, encode.

A handler answers at once or returns an awaitable; most requests never wait, and for them no task is made. Answers that must wait are
awaited by the connection, which keeps them in request order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from tidelog.model import invariant
from tidelog.runtime import Address, Metrics
from tidelog.runtime.disk import Buffer
from tidelog.wire.api import API_TABLE, ApiKey, Response
from tidelog.wire.codec import decode_request
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.frame import encode_response_frame, encode_unsupported_version_frame
from tidelog.wire.header import RequestHeader, decode_request_header

Frame: TypeAlias = list[Buffer]
Handler: TypeAlias = Callable[["RequestContext", object], object]
"""Takes the request type of its API; answers with the response type, with None where the protocol wants silence (acks=0), or with an
awaitable of either. The table is the one place where the types of the APIs meet, hence the objects."""


class ConnectionRefused(Exception):
    """The peer sent something that has no answer; its connection is closed."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a handler may know of a request besides its body."""

    header: RequestHeader
    listener: str
    local: Address  # The address the client dialled, for answers that must name us as the client knows us.
    peer: Address

    @property
    def version(self) -> int:
        """The API version the client speaks."""
        return self.header.api_version

    @property
    def client_id(self) -> str:
        """What the client calls itself; empty where it does not say."""
        return self.header.client_id or ""


class Dispatcher:
    """Finds the handler of a frame and turns its result into a frame."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], metrics: Metrics) -> None:
        self._handlers = dict(handlers)
        self._requests = {
            key: metrics.counter("kafka_network_requestmetrics_requests_total", request=key.name) for key in handlers
        }

    def dispatch(
        self, frame: bytearray, listener: str, local: Address, peer: Address
    ) -> Frame | None | Awaitable[Frame | None]:
        """The answer to a frame, or an awaitable of it; None is silence. Raises ConnectionRefused."""
        try:
            header, position = decode_request_header(frame)
            context = RequestContext(header, listener, local, peer)
            handler = self._handler_for(header)
            if handler is None:
                return encode_unsupported_version_frame(header.correlation_id)
            request = decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
        except MalformedMessage as malformed:
            raise ConnectionRefused(f"malformed request: {malformed}") from malformed
        self._requests[header.api_key].add()
        answer = handler(context, request)
        if isinstance(answer, Awaitable):
            return _encoded_later(header, answer)
        return _encoded(header, answer)

    def _handler_for(self, header: RequestHeader) -> Handler | None:
        """The handler, or None for an ApiVersions request of a version we do not know, which alone is answered (KIP-511)."""
        handler = self._handlers.get(header.api_key)
        if handler is not None and header.api_version in API_TABLE[header.api_key].served:
            return handler
        if header.api_key == ApiKey.API_VERSIONS:
            return None
        raise ConnectionRefused(f"{header.api_key.name} version {header.api_version} is not served")


async def _encoded_later(header: RequestHeader, answer: Awaitable[object]) -> Frame | None:
    return _encoded(header, await answer)


def _encoded(header: RequestHeader, response: object) -> Frame | None:
    if response is None:
        return None
    invariant(isinstance(response, Response), "a handler answers with a response or with silence")
    return encode_response_frame(header, cast("Response", response))

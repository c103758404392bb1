"""From a frame to its answer: header, version, decode, handler, encode.

A handler answers at once or returns an awaitable; most requests never wait, and for them no task is made. Answers that must wait are
awaited by the connection, which keeps them in request order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias, cast

from tidelog.runtime import Address, Clock, Metrics
from tidelog.server.pipeline import Frame, Settling
from tidelog.server.refusals import ConnectionRefused, Refusal
from tidelog.wire.api import API_TABLE, ApiKey, Response, VersionRange
from tidelog.wire.codec import decode_request
from tidelog.wire.errors import MalformedMessage, UnsupportedRequest
from tidelog.wire.frame import (
    encode_response_frame,
    encode_response_frame_in_slices,
    encode_unsupported_version_frame,
)
from tidelog.wire.header import RequestHeader, decode_request_header

Handler: TypeAlias = Callable[["RequestContext", object], object]
"""Takes the request type of its API; answers with the response type, with None where the protocol wants silence (acks=0), or with an
awaitable of either, wrapped as `Settling` where requests of its kind need not wait for it. An awaitable may also end in `Settling`: what was
waited for is done, and what is left need not hold up requests of its kind. The table is the one place where the types of the APIs meet, hence
the objects."""


_Later: TypeAlias = "Response | Settling[Response | None] | None"


class RequestContext(NamedTuple):
    """What a handler may know of a request besides its body. A tuple because one is made per request."""

    header: RequestHeader
    listener: str
    local: Address  # The address the client dialled, for answers that must name us as the client knows us.
    peer: Address
    connection: int = 0  # Connections are numbered as they come.

    @property
    def version(self) -> int:
        """The API version the client speaks."""
        return self.header.api_version

    @property
    def client_id(self) -> str:
        """What the client calls itself; empty where it does not say."""
        return self.header.client_id or ""


class _Route(NamedTuple):
    """Where requests of one API go."""

    handler: Handler
    served: VersionRange
    note: Callable[[], None]  # Counts the request.
    took: Callable[[float], None]  # Milliseconds from here to its answer, waiting included.


class Dispatcher:
    """Finds the handler of a frame and turns its result into a frame."""

    def __init__(self, handlers: Mapping[ApiKey, Handler], metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self._routes = {
            key: _Route(
                handler,
                API_TABLE[key].served,
                metrics.counter("kafka_network_requestmetrics_requests_total", request=key.kafka_name).add,
                metrics.summary("kafka_network_requestmetrics_totaltimems", request=key.kafka_name).observe,
            )
            for key, handler in handlers.items()
        }

    def dispatch(
        self, frame: bytearray, listener: str, local: Address, peer: Address, connection: int = 0
    ) -> Frame | Awaitable[Frame | Settling[Frame | None] | None] | Settling[Frame | None] | None:
        """The answer to a frame, or an awaitable of it; None is silence. Raises ConnectionRefused."""
        try:
            header, position = decode_request_header(frame)
            route = self._routes.get(header.api_key)
            if route is None or header.api_version not in route.served:
                return _unserved(header)
            request = decode_request(header.api_key, header.api_version, memoryview(frame)[position:])
        except UnsupportedRequest as unserved:
            raise ConnectionRefused(str(unserved), Refusal.UNSERVED) from unserved
        except MalformedMessage as malformed:
            raise ConnectionRefused(f"malformed request: {malformed}", Refusal.MALFORMED) from malformed
        route.note()
        began_ms = self._clock.monotonic_ms()
        answer = route.handler(RequestContext(header, listener, local, peer, connection), request)
        if isinstance(answer, Response):
            encoded = encode_response_frame(header, answer)
            route.took(self._clock.monotonic_ms() - began_ms)
            return encoded
        if isinstance(answer, Settling):
            return Settling(self._timed(route, began_ms, _encoded_settled(header, answer.answer)))
        return None if answer is None else self._timed_later(route, began_ms, header, cast("Awaitable[_Later]", answer))

    async def _timed(self, route: _Route, began_ms: float, encoded: Awaitable[Frame | None]) -> Frame | None:
        frame = await encoded
        route.took(self._clock.monotonic_ms() - began_ms)
        return frame

    async def _timed_later(
        self, route: _Route, began_ms: float, header: RequestHeader, answer: Awaitable[_Later]
    ) -> Frame | Settling[Frame | None] | None:
        response = await answer
        if isinstance(response, Settling):
            return Settling(self._timed(route, began_ms, _encoded_settled(header, response.answer)))
        frame = None if response is None else await _encoded(header, response)
        route.took(self._clock.monotonic_ms() - began_ms)
        return frame


def _unserved(header: RequestHeader) -> Frame:
    """Only ApiVersions is answered in a version we do not know, so that the client can choose again (KIP-511)."""
    if header.api_key == ApiKey.API_VERSIONS:
        return encode_unsupported_version_frame(header.correlation_id)
    raise ConnectionRefused(f"{header.api_key.name} version {header.api_version} is not served", Refusal.UNSERVED)


async def _encoded(header: RequestHeader, response: Response) -> Frame:
    """Lists of all there is may be very long; others have their turn in between."""
    frame: Frame = []
    for encoded in encode_response_frame_in_slices(header, response):
        if encoded is None:
            await asyncio.sleep(0)
        else:
            frame = encoded
    return frame


async def _encoded_settled(header: RequestHeader, answer: Awaitable[Response | None]) -> Frame | None:
    response = await answer
    return None if response is None else encode_response_frame(header, response)

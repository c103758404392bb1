"""Bodies to messages and back, for every API of the table in every version it serves.

A codec is made on the first use of an (API, version, direction), from kio's field metadata; Produce and Fetch, whose bodies carry the
data, have hand-written ones that neither copy records nor need kio at all. Making one takes a few milliseconds, the first
one more, since it imports kio; a broker calls `prepare` before it listens to have that behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias, cast

from tidelog.model import ErrorCode
from tidelog.wire.api import API_TABLE, ApiKey, Request, Response
from tidelog.wire.decoder import compile_decoder
from tidelog.wire.elements import ElementBudget
from tidelog.wire.encoder import EncodeInSlices, compile_encoder, compile_sliced_encoder
from tidelog.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedRequest
from tidelog.wire.hot.fetch_request import decode_fetch_request, encode_fetch_request
from tidelog.wire.hot.fetch_response import decode_fetch_response, encode_fetch_response
from tidelog.wire.hot.produce_request import decode_produce_request, encode_produce_request
from tidelog.wire.hot.produce_response import decode_produce_response, encode_produce_response
from tidelog.wire.layout import StructLayout, layout_of
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.primitives import INT16, Buffer

DecodeBody: TypeAlias = Callable[[memoryview], tuple[object, int]]
"""Reads a body; returns the message and how many bytes it took."""

EncodeBody: TypeAlias = Callable[[object], list[Buffer]]
"""Writes a body as pieces to be sent one after the other."""


def decode_request(key: ApiKey, version: int, body: Buffer) -> Request[Response]:
    """The request that `body` is. Raises MalformedMessage; its subclass UnsupportedRequest for what the table does not serve."""
    # Bytes behind the body are ignored, as Kafka does: librdkafka 2.x sends three after a Metadata v13 request for all topics.
    message, _ = _decode(_request_codec(key, version), body)
    return cast("Request[Response]", message)


def encode_response(key: ApiKey, version: int, response: Response) -> list[Buffer]:
    """The body of `response`, as pieces to be sent one after the other. Raises UnencodableMessage."""
    return _encode(_response_codec(key, version), response)


def encode_response_in_slices(key: ApiKey, version: int, response: Response) -> Iterator[list[Buffer] | None]:
    """The same in slices, for answers that may be very long: the body comes last, and before it a None whenever others may have a turn."""
    codec = _response_codec(key, version)
    return codec.encode_in_slices(response)


def encode_request(key: ApiKey, version: int, request: Request[Response]) -> list[Buffer]:
    """The body of `request`, as pieces to be sent one after the other. Raises UnencodableMessage."""
    return _encode(_request_codec(key, version), request)


def decode_response(key: ApiKey, version: int, body: Buffer) -> Response:
    """The response that `body` is. Raises MalformedMessage.

    A broker that does not know the version of an ApiVersions request answers in version 0 whatever was asked (KIP-511).
    """
    try:
        return _decode_whole(_response_codec(key, version), body)
    except MalformedMessage:
        if key != ApiKey.API_VERSIONS or version == 0 or bytes(body[:2]) != _UNSUPPORTED_VERSION:
            raise
        return decode_response(key, 0, body)


def prepare(keys: Iterable[ApiKey] = API_TABLE) -> None:
    """Make the codecs of every served version of `keys` now rather than on first use."""
    for key in keys:
        for version in API_TABLE[key].served:
            _request_codec(key, version)
            _response_codec(key, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codec:
    title: str  # for error messages
    decode: DecodeBody
    encode: EncodeBody
    sliced: EncodeInSlices | None = None  # None where it is never worth it.

    def encode_in_slices(self, message: object) -> Iterator[list[Buffer] | None]:
        """The pieces of a body, after a None for each pause on the way. Raises UnencodableMessage."""
        if self.sliced is None:
            yield _encode(self, message)
            return
        out = bytearray()
        try:
            for _ in self.sliced(out, message):
                yield None
        except (struct.error, UnicodeEncodeError) as error:
            raise UnencodableMessage(f"{self.title}: {error}") from error
        yield [out]


_UNSUPPORTED_VERSION: Final = INT16.pack(ErrorCode.UNSUPPORTED_VERSION)

# The type that an encoder takes is the key it stands under, which the type checker cannot see.
_HAND_WRITTEN: Final[dict[type, tuple[Callable[..., tuple[object, int]], Callable[..., list[Buffer]]]]] = {
    ProduceRequest: (decode_produce_request, encode_produce_request),
    ProduceResponse: (decode_produce_response, encode_produce_response),
    FetchRequest: (decode_fetch_request, encode_fetch_request),
    FetchResponse: (decode_fetch_response, encode_fetch_response),
}


@cache
def _request_codec(key: ApiKey, version: int) -> _Codec:
    return _codec(key, version, is_request=True)


@cache
def _response_codec(key: ApiKey, version: int) -> _Codec:
    return _codec(key, version, is_request=False)


def _codec(key: ApiKey, version: int, *, is_request: bool) -> _Codec:
    api = API_TABLE.get(key)
    if api is None or version not in api.served:
        raise UnsupportedRequest(f"{key.name} v{version} is not served")
    message_type = api.request if is_request else api.response
    title = f"{message_type.__name__} v{version}"
    if message_type in _HAND_WRITTEN:
        decode, encode = _HAND_WRITTEN[message_type]
        return _Codec(title=title, decode=partial(decode, version), encode=partial(encode, version))
    # A broker bounds what strangers send it; what it answers may be as long as the cluster is large.
    budget = ElementBudget() if is_request else None
    return _compiled(title, layout_of(api, version, message_type), budget)


def _compiled(title: str, layout: StructLayout, budget: ElementBudget | None) -> _Codec:
    decode_struct = compile_decoder(layout, budget)
    encode_struct = compile_encoder(layout)

    def decode(body: memoryview) -> tuple[object, int]:
        if budget is not None:
            budget.renew()
        return decode_struct(body, 0)

    def encode(message: object) -> list[Buffer]:
        out = bytearray()
        encode_struct(out, message)
        return [out]

    return _Codec(title=title, decode=decode, encode=encode, sliced=compile_sliced_encoder(layout))


def _decode_whole(codec: _Codec, body: Buffer) -> Response:
    message, position = _decode(codec, body)
    if position != len(body):
        raise MalformedMessage(f"{codec.title} is followed by {len(body) - position} bytes")
    return cast("Response", message)


def _decode(codec: _Codec, body: Buffer) -> tuple[object, int]:
    try:
        return codec.decode(memoryview(body))
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"{codec.title} ends within a field") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"{codec.title} has text that is not UTF-8") from error


def _encode(codec: _Codec, message: object) -> list[Buffer]:
    try:
        return codec.encode(message)
    except (struct.error, UnicodeEncodeError) as error:
        raise UnencodableMessage(f"{codec.title}: {error}") from error

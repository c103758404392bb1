"""kio as the oracle: any message of any version as Hypothesis strategies, its bytes as kio writes them, and the same
message as our type. Knows nothing of our layouts."""

from __future__ import annotations

import dataclasses
import datetime
import io
import typing
import uuid
from collections.abc import Iterator
from importlib import import_module
from types import UnionType
from typing import Any, NamedTuple

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from tidelog.model import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.primitives import Buffer


class Case(NamedTuple):
    """One direction of one version of one API."""

    key: ApiKey
    version: int
    is_request: bool

    def __str__(self) -> str:
        return f"{self.our_type.__name__}-v{self.version}"

    @property
    def our_type(self) -> type[Any]:
        api = API_TABLE[self.key]
        return api.request if self.is_request else api.response

    @property
    def kio_type(self) -> type[Any]:
        direction = "request" if self.is_request else "response"
        module = import_module(f"kio.schema.{self.key.name.lower()}.v{self.version}.{direction}")
        return typing.cast("type[Any]", getattr(module, self.our_type.__name__))

    def decode(self, body: Buffer) -> object:
        decode = codec.decode_request if self.is_request else codec.decode_response
        return decode(self.key, self.version, body)

    def encode(self, message: Any) -> list[Buffer]:
        if self.is_request:
            return codec.encode_request(self.key, self.version, message)
        return codec.encode_response(self.key, self.version, message)


def kio_cases() -> Iterator[Case]:
    """What kio can be asked about."""
    return (case for case in all_cases() if not API_TABLE[case.key].declares_itself)


def all_cases() -> Iterator[Case]:
    for api in API_TABLE.values():
        for version in api.served:
            yield Case(api.key, version, is_request=True)
            yield Case(api.key, version, is_request=False)


def kio_bytes(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_message(case: Case, body: bytes) -> Any:
    """What kio reads; only for bytes that we wrote, since it trusts them."""
    message, size = entity_reader(case.kio_type)(body, 0)
    assert size == len(body)
    return message


def converted(message: Any, our_type: type[Any]) -> Any:
    """The kio message as our type; what its version lacks has our defaults."""
    hints = typing.get_type_hints(our_type)
    values = {}
    for field in dataclasses.fields(message):
        name = our_name(field)
        value = getattr(message, field.name)
        stays_null = value is None and is_nullable(hints[name])
        values[name] = None if stays_null else _converted_value(value, innermost(hints[name]))
    return our_type(**values)


def our_name(field: dataclasses.Field[Any]) -> str:
    is_time = field.metadata.get("kafka_type", "").startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if is_time else field.name


def innermost(hint: Any) -> Any:
    """The X of `X | None`, `tuple[X, ...]` and their combinations."""
    arguments = [argument for argument in typing.get_args(hint) if argument not in (type(None), Ellipsis)]
    return innermost(arguments[0]) if arguments else hint


def is_nullable(hint: Any) -> bool:
    return isinstance(hint, UnionType) and type(None) in typing.get_args(hint)


def messages(kio_type: type[Any]) -> st.SearchStrategy[Any]:
    """Any message of this type that kio can write."""
    if kio_type not in _STRATEGIES:
        fields = {field.name: _values(field) for field in dataclasses.fields(kio_type)}
        _STRATEGIES[kio_type] = st.builds(kio_type, **fields)
    return _STRATEGIES[kio_type]


_STRATEGIES: dict[type[Any], st.SearchStrategy[Any]] = {}


def _converted_value(value: Any, inner: Any) -> Any:
    match value:
        case tuple():
            return tuple(_converted_value(element, inner) for element in value)
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            return int(value.timestamp()) * 1000
        case KioErrorCode():
            return ErrorCode(value.value)
        case None if inner is int:
            return -1
        case _ if dataclasses.is_dataclass(value):
            return converted(value, inner)
        case _:
            return value


def _values(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    kafka_type = field.metadata.get("kafka_type")
    hint = field.type
    element = messages(innermost(hint)) if kafka_type is None else _PRIMITIVES[kafka_type]
    plain = typing.get_args(hint)[0] if is_nullable(hint) else hint
    value = element
    if typing.get_origin(plain) is tuple:
        value = st.lists(element, max_size=2).map(tuple)
        if kafka_type == "int32":
            value |= st.just(tuple(range(200)))
    can_be_null = is_nullable(hint) and (field.metadata.get("tag") is None or field.default is None)
    value = st.none() | value if can_be_null else value
    return value if field.default is dataclasses.MISSING else st.just(field.default) | value


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


_COMMON_ERROR_CODES = [code for code in KioErrorCode if int(code.value) in {int(ours) for ours in ErrorCode}]

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uint8": _unsigned(8),
    "uint16": _unsigned(16),
    "uint32": _unsigned(32),
    "uint64": _unsigned(64),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "orders", "größe-日本", "x" * 126, "x" * 127, "x" * 300]) | st.text(max_size=3),
    "bytes": st.binary(max_size=9),
    "records": st.sampled_from([b"", b"r" * 126, b"r" * 127, b"r" * 20_000]) | st.binary(max_size=9),
    "uuid": st.none() | st.uuids(version=4) | st.just(uuid.UUID(int=1)),
    "error_code": st.sampled_from(_COMMON_ERROR_CODES),
    "timedelta_i32": _integers(32).map(lambda ms: datetime.timedelta(milliseconds=ms)),
    "timedelta_i64": _integers(40).map(lambda ms: datetime.timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 1 << 32).map(lambda seconds: datetime.datetime.fromtimestamp(seconds, datetime.UTC)),
}

"""The compiler is as general as kio's schemas: it handles every API that kio has, of which the table serves a part."""

from __future__ import annotations

import dataclasses
import typing
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import kio.schema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.wire.oracle import converted, innermost, is_nullable, kio_bytes, messages, our_name
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.decoder import compile_decoder
from tidelog.wire.encoder import compile_encoder
from tidelog.wire.layout import struct_layout

SCHEMAS = Path(next(iter(kio.schema.__path__)))
KRAFT_ONLY = {"fetch_snapshot", "update_raft_voter"}  # their tagged structs lack a default in kio; never served
EVERY_API = [
    name for name in (key.name.lower() for key in ApiKey) if (SCHEMAS / name).exists() and name not in KRAFT_ONLY
]


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("schema", EVERY_API)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_newest_version_of_any_api_is_written_as_kio_writes_it(
    schema: str, direction: str, data: st.DataObject
) -> None:
    kio_type = newest(schema, direction)
    our_type = mirror(kio_type)
    layout = struct_layout(kio_type, our_type)
    message = data.draw(messages(kio_type))
    ours = converted(message, our_type)
    out = bytearray()
    compile_encoder(layout)(out, ours)
    assert out == kio_bytes(message)
    assert compile_decoder(layout)(memoryview(out), 0) == (ours, len(out))


def newest(schema: str, direction: str) -> type[Any]:
    version = max(int(path.name.removeprefix("v")) for path in (SCHEMAS / schema).glob("v*"))
    module = import_module(f"kio.schema.{schema}.v{version}.{direction}")
    (kio_type,) = (
        value
        for value in vars(module).values()
        if getattr(value, "__module__", None) == module.__name__ and value.__type__.name == direction
    )
    return typing.cast("type[Any]", kio_type)


def mirror(kio_type: type[Any]) -> type[Any]:
    """The type that we would write for this one."""
    if kio_type not in _MIRRORS:
        fields = [(our_name(field), our_hint(field), our_default(field)) for field in dataclasses.fields(kio_type)]
        _MIRRORS[kio_type] = dataclasses.make_dataclass(kio_type.__name__, fields, kw_only=True, frozen=True)
    return _MIRRORS[kio_type]


_MIRRORS: dict[type[Any], type[Any]] = {}


def our_hint(field: dataclasses.Field[Any]) -> Any:
    kafka_type = field.metadata.get("kafka_type", "")
    if kafka_type.startswith(("timedelta", "datetime")):
        return int
    inner = innermost(field.type)
    ours: Any = {"uuid": UUID, "error_code": ErrorCode}.get(kafka_type, inner)
    if dataclasses.is_dataclass(inner):
        ours = mirror(typing.cast("type[Any]", inner))
    plain = typing.get_args(field.type)[0] if is_nullable(field.type) else field.type
    if typing.get_origin(plain) is tuple:
        ours = tuple[ours, ...]
    return ours | None if is_nullable(field.type) else ours


def our_default(field: dataclasses.Field[Any]) -> Any:
    if field.default is dataclasses.MISSING:
        return dataclasses.field()
    value = converted(Holder(field.default), mirror_of_holder(our_hint(field))).value
    return dataclasses.field(default=value)


@dataclasses.dataclass
class Holder:
    value: Any


def mirror_of_holder(hint: Any) -> type[Any]:
    return dataclasses.make_dataclass("Holder", [("value", hint)], kw_only=True)

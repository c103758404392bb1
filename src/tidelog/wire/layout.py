"""The order of fields on the wire, taken from kio's dataclasses and matched with ours.

kio has one dataclass tree per API version whose field metadata says everything about the encoding; we have one tree per API. A layout
joins the two for one version, and making it proves that they fit: every field of that version has a field of ours to live in, and every
field of ours that is absent from that version, or may be left out, has a default. A message that kio does not have declares its own
wire types with the words of `schema`, and its layout is read from it alone.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Final

from tidelog.model import invariant
from tidelog.wire.definition import Api
from tidelog.wire.schema import PLAIN_TYPES, KafkaType, Tagged

FIXED_FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""The struct format of each type of fixed size; times are milliseconds to us, whatever kio makes of them."""

FIXED_SIZES: Final = {"b": 1, "h": 2, "i": 4, "q": 8, "B": 1, "H": 2, "I": 4, "Q": 8, "d": 8, "?": 1}
UUID: Final = "uuid"
VARIABLE_TYPES: Final = ("string", "bytes", "records")

_FEW: Final = 16
_TEST_LIBRARY: Final = "hypothesis"
_TIME_TYPES: Final = ("timedelta_i32", "timedelta_i64", "datetime_i64")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLayout:
    """One field: where it lives in our type, and how it is written."""

    name: str
    kafka_type: str | None  # None where it is a struct
    struct: StructLayout | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object  # MISSING where our type has none

    @property
    def is_fixed(self) -> bool:
        """Whether it is a single value of fixed size that `struct` can pack."""
        return self.kafka_type in FIXED_FORMATS and not self.is_array


@dataclass(frozen=True, slots=True, kw_only=True)
class StructLayout:
    """One struct of one version: its fields in the order of the wire, and those of ours that this version leaves out."""

    message_type: type
    is_flexible: bool
    fields: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]  # ascending by tag
    absent_needed: tuple[tuple[str, object], ...]  # name and default of fields that may not be dropped silently


def layout_of(api: Api, version: int, message_type: type) -> StructLayout:
    """The layout of the request or response `message_type` in `version`. Imports kio's module of that version on first use."""
    if api.declares_itself:
        return declared_layout(message_type, is_flexible=api.is_flexible(version))
    direction = "request" if message_type is api.request else "response"
    with _hidden(_TEST_LIBRARY):
        module = import_module(f"kio.schema.{api.key.name.lower()}.v{version}.{direction}")
    schema = getattr(module, message_type.__name__)
    invariant(schema.__flexible__ == api.is_flexible(version), f"kio agrees on the encoding of {api.name} v{version}")
    return struct_layout(schema, message_type)


@contextmanager
def _hidden(library: str) -> Iterator[None]:
    """Let a library seem not to be installed.

    kio imports Hypothesis where it can, to tell it of its types: a second for every command and every test process, and a directory
    of its own wherever one happens to be.
    """
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # the way to say that an import fails
    try:
        yield
    finally:
        del sys.modules[library]


def struct_layout(schema: type, message_type: type) -> StructLayout:
    """Join kio's dataclass with ours."""
    ours = {field.name: field for field in fields(message_type)}
    hints = typing.get_type_hints(message_type)
    laid_out = []
    for field in fields(schema):
        name = _our_name(field)
        invariant(name in ours, f"{message_type.__name__} has a field {name}")
        laid_out.append(_field_layout(field, ours[name], hints[name]))
    present = {field.name for field in laid_out}
    absent = [field for field in ours.values() if field.name not in present]
    for missing in absent:
        invariant(_default(missing) is not MISSING, f"{message_type.__name__}.{missing.name} has a default")
    needed = tuple((field.name, _default(field)) for field in absent if field.metadata.get("needed", False))
    return _struct_of(message_type, laid_out, is_flexible=bool(vars(schema)["__flexible__"]), absent_needed=needed)


def declared_layout(message_type: type, *, is_flexible: bool) -> StructLayout:
    """The layout that the annotations of our own dataclass declare."""
    hints = typing.get_type_hints(message_type, include_extras=True)
    laid_out = [_declared_field(field, hints[field.name], is_flexible=is_flexible) for field in fields(message_type)]
    return _struct_of(message_type, laid_out, is_flexible=is_flexible)


@cache
def fixed_array_layouts(format_character: str) -> tuple[Struct, ...]:
    """How few numbers are packed at once: by their count, from none on."""
    return tuple(Struct(f">{count}{format_character}") for count in range(_FEW))


def smallest_size(layout: StructLayout) -> int:
    """The fewest bytes that an encoded struct can have, by which counts are bounded."""
    return max(1, sum(smallest_field_size(field, layout) for field in layout.fields) + layout.is_flexible)


def smallest_field_size(field: FieldLayout, parent: StructLayout) -> int:
    """The fewest bytes that one untagged field can have."""
    if field.is_array:
        return 1 if parent.is_flexible else 4
    return 1 if field.struct is not None and field.is_nullable else smallest_element_size(field, parent)


def smallest_element_size(field: FieldLayout, parent: StructLayout) -> int:
    """The fewest bytes of one element of an array, or of the value itself."""
    if field.struct is not None:
        return smallest_size(field.struct)
    if field.kafka_type == UUID:
        return 16
    if field.kafka_type in FIXED_FORMATS:
        return FIXED_SIZES[FIXED_FORMATS[field.kafka_type]]
    if parent.is_flexible:
        return 1
    return 2 if field.kafka_type == "string" else 4


def _struct_of(
    message_type: type,
    laid_out: list[FieldLayout],
    *,
    is_flexible: bool,
    absent_needed: tuple[tuple[str, object], ...] = (),
) -> StructLayout:
    tagged = [field for field in laid_out if field.tag is not None]
    return StructLayout(
        message_type=message_type,
        is_flexible=is_flexible,
        fields=tuple(field for field in laid_out if field.tag is None),
        tagged=tuple(sorted(tagged, key=lambda field: field.tag or 0)),
        absent_needed=absent_needed,
    )


def _our_name(field: Field[object]) -> str:
    return f"{field.name}_ms" if field.metadata.get("kafka_type") in _TIME_TYPES else field.name


def _field_layout(field: Field[object], ours: Field[object], hint: object) -> FieldLayout:
    inner, is_array, is_nullable = _unwrapped(field.type)
    tag = field.metadata.get("tag")
    default = _default(ours)
    invariant(tag is None or default is not MISSING, f"the tagged field {ours.name} has a default")
    kafka_type = field.metadata.get("kafka_type")
    invariant(kafka_type is None or kafka_type in (*FIXED_FORMATS, *VARIABLE_TYPES, UUID), f"{kafka_type} is known")
    nested = None
    if kafka_type is None:
        our_inner = _unwrapped(hint)[0]
        invariant(
            isinstance(inner, type) and isinstance(our_inner, type) and is_dataclass(our_inner),
            f"{ours.name} is a struct",
        )
        nested = struct_layout(typing.cast("type", inner), typing.cast("type", our_inner))
    return FieldLayout(
        name=ours.name,
        kafka_type=kafka_type,
        struct=nested,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=tag,
        default=default,
    )


def _declared_field(field: Field[object], hint: object, *, is_flexible: bool) -> FieldLayout:
    hint, words = _annotated(hint)
    inner, is_array, is_nullable = _unwrapped(hint)
    inner, inner_words = _annotated(inner)
    words += inner_words
    kafka_type = next((word.name for word in words if isinstance(word, KafkaType)), PLAIN_TYPES.get(inner))
    tag = next((word.tag for word in words if isinstance(word, Tagged)), None)
    default = _default(field)
    invariant(tag is None or default is not MISSING, f"the tagged field {field.name} has a default")
    nested = None
    if kafka_type is None:
        invariant(isinstance(inner, type) and is_dataclass(inner), f"{field.name} says how it is written")
        nested = declared_layout(typing.cast("type", inner), is_flexible=is_flexible)
    return FieldLayout(
        name=field.name,
        kafka_type=kafka_type,
        struct=nested,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=tag,
        default=default,
    )


def _annotated(hint: object) -> tuple[object, tuple[object, ...]]:
    """A type and the words that its annotation adds to it."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, ()
    inner, *words = typing.get_args(hint)
    return inner, tuple(words)


def _default(field: Field[object]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _unwrapped(hint: object) -> tuple[object, bool, bool]:
    """The innermost type of `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`; whether a tuple; whether nullable."""
    is_nullable = typing.get_origin(hint) in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)
    if is_nullable:
        alternatives = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        hint = alternatives[0]
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True, is_nullable
    return hint, False, is_nullable

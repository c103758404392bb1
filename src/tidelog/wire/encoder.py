"""A layout turned into a function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sized
from operator import attrgetter
from struct import Struct
from typing import Any, TypeAlias

from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.layout import FIXED_FORMATS, UUID, FieldLayout, StructLayout
from tidelog.wire.primitives import INT32, uuid_to_bytes, write_classic_string, write_compact_string, write_uvarint

# `Any` stays inside this module: the layout, not the type checker, knows which value a field holds.
Encode: TypeAlias = Callable[[bytearray, Any], None]
"""Appends one value."""


def compile_encoder(layout: StructLayout) -> Encode:
    """A function that writes one struct of this layout."""
    steps = _steps(layout)

    def encode_struct(out: bytearray, message: object) -> None:
        for step in steps:
            step(out, message)

    return encode_struct


def _steps(layout: StructLayout) -> tuple[Encode, ...]:
    steps: list[Encode] = [_refusal(layout, name, default) for name, default in layout.absent_needed]
    run: list[FieldLayout] = []
    for field in layout.fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_run(run))
            run = []
        steps.append(_single(layout, field))
    if run:
        steps.append(_fixed_run(run))
    if layout.is_flexible:
        steps.append(_tagged_section(layout) if layout.tagged else _no_tags)
    return tuple(steps)


def _refusal(layout: StructLayout, name: str, default: object) -> Encode:
    """A field whose loss would change what the message means must have its default where the version has no place for it."""

    def refuse_unless_default(out: bytearray, message: object) -> None:
        del out
        if getattr(message, name) != default:
            raise UnencodableMessage(f"this version of {layout.message_type.__name__} has no {name}")

    return refuse_unless_default


def _fixed_run(run: list[FieldLayout]) -> Encode:
    """Neighbouring fields of fixed size are packed at once."""
    layout = Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in run))
    pack = layout.pack
    get = attrgetter(*(field.name for field in run))
    if len(run) == 1:

        def write_one(out: bytearray, message: object) -> None:
            out += pack(get(message))

        return write_one

    def write_run(out: bytearray, message: object) -> None:
        out += pack(*get(message))

    return write_run


def _single(layout: StructLayout, field: FieldLayout) -> Encode:
    get = attrgetter(field.name)
    encode = _value_encoder(field, layout)
    may_be_none = field.is_nullable or field.kafka_type == UUID

    def write_single(out: bytearray, message: object) -> None:
        value = get(message)
        if value is None and not may_be_none:
            raise UnencodableMessage(
                f"{layout.message_type.__name__}.{field.name} is null, which this version cannot say"
            )
        encode(out, value)

    return write_single


def _no_tags(out: bytearray, message: object) -> None:
    del message
    out.append(0)


def _tagged_section(layout: StructLayout) -> Encode:
    """Fields that have their default are left out (KIP-482)."""
    tagged = tuple(
        (field.tag or 0, attrgetter(field.name), field.default, _value_encoder(field, layout))
        for field in layout.tagged
    )

    def write_tagged_section(out: bytearray, message: object) -> None:
        count = 0
        section = bytearray()
        for tag, get, default, encode in tagged:
            value = get(message)
            if value == default:
                continue
            count += 1
            encoded = bytearray()
            encode(encoded, value)
            write_uvarint(section, tag)
            write_uvarint(section, len(encoded))
            section += encoded
        write_uvarint(out, count)
        out += section

    return write_tagged_section


def _value_encoder(field: FieldLayout, parent: StructLayout) -> Encode:
    if field.is_array:
        return _array_encoder(_element_encoder(field, is_flexible=parent.is_flexible), is_flexible=parent.is_flexible)
    encode = _element_encoder(field, is_flexible=parent.is_flexible)
    return _nullable_struct_encoder(encode) if field.struct is not None and field.is_nullable else encode


def _element_encoder(field: FieldLayout, *, is_flexible: bool) -> Encode:
    if field.struct is not None:
        return compile_encoder(field.struct)
    kafka_type = field.kafka_type or ""
    if kafka_type == UUID:
        return _write_uuid
    if kafka_type in FIXED_FORMATS:
        return _fixed_encoder(FIXED_FORMATS[kafka_type])
    if kafka_type == "string":
        return _write_compact_string if is_flexible else _write_classic_string
    return _write_compact_bytes if is_flexible else _write_classic_bytes


def _fixed_encoder(format_character: str) -> Encode:
    pack = Struct(">" + format_character).pack

    def write_fixed(out: bytearray, value: object) -> None:
        out += pack(value)

    return write_fixed


def _write_uuid(out: bytearray, value: Any) -> None:
    out += uuid_to_bytes(value)


def _write_compact_string(out: bytearray, value: Any) -> None:
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def _write_classic_string(out: bytearray, value: Any) -> None:
    if value is None:
        out += b"\xff\xff"
    else:
        write_classic_string(out, value)


def _write_compact_bytes(out: bytearray, value: Any) -> None:
    _write_compact_length(out, value)
    out += value or b""


def _write_classic_bytes(out: bytearray, value: Any) -> None:
    _write_classic_length(out, value)
    out += value or b""


def _array_encoder(encode: Encode, *, is_flexible: bool) -> Encode:
    write_count = _write_compact_length if is_flexible else _write_classic_length

    def write_array(out: bytearray, elements: Any) -> None:
        write_count(out, elements)
        for element in elements or ():
            encode(out, element)

    return write_array


def _nullable_struct_encoder(encode: Encode) -> Encode:
    """A struct that may be null is preceded by a byte: -1 is null, 1 is present (KIP-893)."""

    def write_nullable_struct(out: bytearray, value: object) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            encode(out, value)

    return write_nullable_struct


def _write_compact_length(out: bytearray, value: Sized | None) -> None:
    write_uvarint(out, 0 if value is None else len(value) + 1)


def _write_classic_length(out: bytearray, value: Sized | None) -> None:
    out += INT32.pack(-1 if value is None else len(value))

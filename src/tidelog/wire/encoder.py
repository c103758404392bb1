"""A layout turned into a function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from tidelog.wire.encoding import Encoding, encoding_of
from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.layout import FIXED_FORMATS, UUID, FieldLayout, StructLayout, fixed_array_layouts
from tidelog.wire.primitives import write_uuid, write_uvarint
from tidelog.wire.tagged import write_tag

# `Any` stays inside this module: the layout, not the type checker, knows which value a field holds.
Encode: TypeAlias = Callable[[bytearray, Any], None]
"""Appends one value."""

EncodeInSlices: TypeAlias = Callable[[bytearray, Any], Iterator[None]]
"""Appends one value, and yields while there is more of it."""

SLICE_ELEMENTS: Final = 500
"""Structs of a long array between two pauses: half a millisecond or so."""


def compile_encoder(layout: StructLayout) -> Encode:
    """A function that writes one struct of this layout."""
    steps = _steps(layout)

    def encode_struct(out: bytearray, message: object) -> None:
        for step in steps:
            step(out, message)

    return encode_struct


def compile_sliced_encoder(layout: StructLayout) -> EncodeInSlices:
    """The same in slices: what is yielded says that there is more. Only the arrays of the struct itself are cut, not what is in them."""
    steps = _steps(layout)

    def encode_in_slices(out: bytearray, message: object) -> Iterator[None]:
        for step in steps:
            if isinstance(step, _ArrayStep):
                yield from step.in_slices(out, message)
            else:
                step(out, message)

    return encode_in_slices


class _ArrayStep:
    """Writes an array of structs that may be very long."""

    def __init__(self, encode: Encode, encoding: Encoding, write: Encode, get: Callable[[object], Any]) -> None:
        self._encode = encode
        self._write_count = encoding.write_length
        self._write = write
        self._get = get

    def __call__(self, out: bytearray, message: object) -> None:
        self._write(out, message)

    def in_slices(self, out: bytearray, message: object) -> Iterator[None]:
        """As a call does, with a pause now and then."""
        elements = self._get(message)
        if elements is None or len(elements) <= SLICE_ELEMENTS:
            self._write(out, message)
            return
        self._write_count(out, elements)
        for first in range(0, len(elements), SLICE_ELEMENTS):
            for element in elements[first : first + SLICE_ELEMENTS]:
                self._encode(out, element)
            yield


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
    """A needed field must have its default where the version has no place for it."""

    def refuse_unless_default(out: bytearray, message: object) -> None:
        del out
        if getattr(message, name) != default:
            raise UnencodableMessage(f"this version of {layout.message_type.__name__} has no {name}")

    return refuse_unless_default


def _fixed_run(run: list[FieldLayout]) -> Encode:
    """Neighbouring fields of fixed size are packed at once."""
    pack = Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in run)).pack
    get = attrgetter(*(field.name for field in run))

    def write_one(out: bytearray, message: object) -> None:
        out += pack(get(message))

    def write_run(out: bytearray, message: object) -> None:
        out += pack(*get(message))

    return write_one if len(run) == 1 else write_run


def _single(layout: StructLayout, field: FieldLayout) -> Encode:
    get = attrgetter(field.name)
    encoding = encoding_of(is_flexible=layout.is_flexible)
    encode = _value_encoder(field, layout)
    may_be_none = field.is_nullable or field.kafka_type == UUID

    def write_single(out: bytearray, message: object) -> None:
        value = get(message)
        if value is None and not may_be_none:
            raise UnencodableMessage(f"this version of {layout.message_type.__name__} cannot have a null {field.name}")
        encode(out, value)

    if field.is_array and field.struct is not None:
        return _ArrayStep(_element_encoder(field, encoding), encoding, write_single, get)
    return write_single


def _no_tags(out: bytearray, message: object) -> None:
    del message
    out.append(0)


def _tagged_section(layout: StructLayout) -> Encode:
    """Fields that have their default are left out."""
    tagged = [
        (field.tag, attrgetter(field.name), field.default, _value_encoder(field, layout))
        for field in layout.tagged
        if field.tag is not None
    ]

    def write_tagged_section(out: bytearray, message: object) -> None:
        count = 0
        section = bytearray()
        for tag, get, default, encode in tagged:
            value = get(message)
            if value != default:
                count += 1
                encoded = bytearray()
                encode(encoded, value)
                write_tag(section, tag, encoded)
        write_uvarint(out, count)
        out += section

    return write_tagged_section


def _value_encoder(field: FieldLayout, parent: StructLayout) -> Encode:
    encoding = encoding_of(is_flexible=parent.is_flexible)
    encode = _element_encoder(field, encoding)
    if field.is_array and field.kafka_type in FIXED_FORMATS:
        return _fixed_array_encoder(FIXED_FORMATS[field.kafka_type], encoding)
    if field.is_array:
        return _array_encoder(encode, encoding)
    return _nullable_struct_encoder(encode) if field.struct is not None and field.is_nullable else encode


def _element_encoder(field: FieldLayout, encoding: Encoding) -> Encode:
    if field.struct is not None:
        return compile_encoder(field.struct)
    if field.kafka_type == UUID:
        return write_uuid
    if field.kafka_type in FIXED_FORMATS:
        return _fixed_encoder(FIXED_FORMATS[field.kafka_type])
    return encoding.write_string if field.kafka_type == "string" else _bytes_encoder(encoding)


def _fixed_encoder(format_character: str) -> Encode:
    pack = Struct(">" + format_character).pack

    def write_fixed(out: bytearray, value: object) -> None:
        out += pack(value)

    return write_fixed


def _bytes_encoder(encoding: Encoding) -> Encode:
    write_length = encoding.write_length

    def write_bytes(out: bytearray, value: Any) -> None:
        write_length(out, value)
        if value is not None:
            out += value

    return write_bytes


def _array_encoder(encode: Encode, encoding: Encoding) -> Encode:
    write_count = encoding.write_length

    def write_array(out: bytearray, elements: Any) -> None:
        write_count(out, elements)
        for element in elements or ():
            encode(out, element)

    return write_array


def _fixed_array_encoder(format_character: str, encoding: Encoding) -> Encode:
    """Numbers are packed all at once."""
    write_count = encoding.write_length
    layouts = fixed_array_layouts(format_character)

    def write_fixed_array(out: bytearray, elements: Any) -> None:
        write_count(out, elements)
        if elements:
            count = len(elements)
            layout = layouts[count] if count < len(layouts) else Struct(f">{count}{format_character}")
            out += layout.pack(*elements)

    return write_fixed_array


def _nullable_struct_encoder(encode: Encode) -> Encode:
    """A struct that may be null is preceded by a byte: -1 is null, 1 is present (KIP-893)."""

    def write_nullable_struct(out: bytearray, value: object) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            encode(out, value)

    return write_nullable_struct

"""A layout turned into a function that reads it, within bounds.

No recursion follows the input: the nesting of calls is that of the layout. Allocation follows the input only as far as bytes back it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from tidelog.model import ErrorCode
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.layout import FIXED_FORMATS, UUID, FieldLayout, StructLayout, smallest_element_size
from tidelog.wire.primitives import (
    INT16,
    INT32,
    read_classic_count,
    read_classic_length,
    read_compact_count,
    read_compact_length,
    read_tag,
    read_tag_count,
    skip_tagged_fields,
    uuid_from_bytes,
)

Decode: TypeAlias = Callable[[memoryview, int], tuple[object, int]]
"""Reads one value at a position; returns it and the position after it."""

_Values: TypeAlias = dict[str, object]
_Step: TypeAlias = Callable[[memoryview, int, _Values], int]

_ERROR_CODES: Final = {int(code): code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The code with this number; one newer than we are means no more to us than that something failed."""
    return _ERROR_CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def compile_decoder(layout: StructLayout) -> Decode:
    """A function that reads one struct of this layout."""
    steps = _steps(layout)
    message_type = layout.message_type

    def decode_struct(data: memoryview, position: int) -> tuple[object, int]:
        values: _Values = {}
        for step in steps:
            position = step(data, position, values)
        return message_type(**values), position

    return decode_struct


def _steps(layout: StructLayout) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    run: list[FieldLayout] = []
    for field in layout.fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_run(run))
            run = []
        steps.append(_single(field.name, _value_decoder(field, layout)))
    if run:
        steps.append(_fixed_run(run))
    if layout.is_flexible:
        steps.append(_tagged_section(layout) if layout.tagged else _no_known_tags)
    return tuple(steps)


def _fixed_run(run: list[FieldLayout]) -> _Step:
    """Neighbouring fields of fixed size are unpacked at once."""
    layout = Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in run))
    names = tuple(field.name for field in run)
    error_names = tuple(field.name for field in run if field.kafka_type == "error_code")

    def read_run(data: memoryview, position: int, values: _Values) -> int:
        numbers = layout.unpack_from(data, position)
        values.update(zip(names, numbers, strict=True))
        for name in error_names:
            values[name] = error_code(numbers[names.index(name)])
        return position + layout.size

    return read_run


def _single(name: str, decode: Decode) -> _Step:
    def read_single(data: memoryview, position: int, values: _Values) -> int:
        values[name], position = decode(data, position)
        return position

    return read_single


def _no_known_tags(data: memoryview, position: int, values: _Values) -> int:
    del values
    return skip_tagged_fields(data, position)


def _tagged_section(layout: StructLayout) -> _Step:
    known = {field.tag: (field.name, _value_decoder(field, layout)) for field in layout.tagged}

    def read_tagged_section(data: memoryview, position: int, values: _Values) -> int:
        count, position = read_tag_count(data, position)
        tag = -1
        for _ in range(count):
            tag, size, start = read_tag(data, position, previous_tag=tag)
            position = start + size
            if tag in known:
                name, decode = known[tag]
                values[name], end = decode(data[:position], start)
                if end != position:
                    raise MalformedMessage(
                        f"tag {tag} at byte {start} has {size} bytes of which {end - start} are its value"
                    )
        return position

    return read_tagged_section


def _value_decoder(field: FieldLayout, parent: StructLayout) -> Decode:
    if field.is_array:
        return _array_decoder(field, parent)
    if field.struct is not None and field.is_nullable:
        return _nullable_struct_decoder(compile_decoder(field.struct))
    return _element_decoder(field, is_flexible=parent.is_flexible, is_nullable=field.is_nullable)


def _element_decoder(field: FieldLayout, *, is_flexible: bool, is_nullable: bool) -> Decode:
    if field.struct is not None:
        return compile_decoder(field.struct)
    kafka_type = field.kafka_type or ""
    if kafka_type == UUID:
        return _read_uuid
    if kafka_type in FIXED_FORMATS:
        return _fixed_decoder(kafka_type)
    return _variable_decoder(kafka_type, is_flexible=is_flexible, is_nullable=is_nullable)


def _fixed_decoder(kafka_type: str) -> Decode:
    layout = Struct(">" + FIXED_FORMATS[kafka_type])
    is_error_code = kafka_type == "error_code"

    def read_fixed(data: memoryview, position: int) -> tuple[object, int]:
        (value,) = layout.unpack_from(data, position)
        return (error_code(value) if is_error_code else value), position + layout.size

    return read_fixed


def _read_uuid(data: memoryview, position: int) -> tuple[object, int]:
    raw = bytes(data[position : position + 16])
    if len(raw) < 16:
        raise MalformedMessage(f"a uuid at byte {position} is cut short")
    return uuid_from_bytes(raw), position + 16


_CONVERSIONS: Final[dict[str, Callable[[memoryview], object]]] = {
    "string": lambda view: str(view, "utf-8"),
    "bytes": bytes,
    "records": lambda view: view,
}


def _variable_decoder(kafka_type: str, *, is_flexible: bool, is_nullable: bool) -> Decode:
    convert = _CONVERSIONS[kafka_type]
    width = INT16 if kafka_type == "string" else INT32

    def read_variable(data: memoryview, position: int) -> tuple[object, int]:
        if is_flexible:
            length, start = read_compact_length(data, position)
        else:
            length, start = read_classic_length(data, position, width=width)
        if length >= 0:
            return convert(data[start : start + length]), start + length
        if is_nullable:
            return None, start
        raise MalformedMessage(f"null {kafka_type} at byte {position}")

    return read_variable


def _array_decoder(field: FieldLayout, parent: StructLayout) -> Decode:
    decode = _element_decoder(field, is_flexible=parent.is_flexible, is_nullable=False)
    element_size = smallest_element_size(field, parent)
    read_count = read_compact_count if parent.is_flexible else read_classic_count
    is_nullable = field.is_nullable

    def read_array(data: memoryview, position: int) -> tuple[object, int]:
        count, after = read_count(data, position, element_size=element_size)
        if count < 0:
            if is_nullable:
                return None, after
            raise MalformedMessage(f"null array at byte {position}")
        elements = []
        for _ in range(count):
            element, after = decode(data, after)
            elements.append(element)
        return tuple(elements), after

    return read_array


def _nullable_struct_decoder(decode: Decode) -> Decode:
    """A struct that may be null is preceded by a byte: negative is null (KIP-893)."""

    def read_nullable_struct(data: memoryview, position: int) -> tuple[object, int]:
        return (None, position + 1) if data[position] >= 0x80 else decode(data, position + 1)

    return read_nullable_struct

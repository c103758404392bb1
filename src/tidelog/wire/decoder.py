"""A layout turned into a function that reads it, within bounds.

No recursion follows the input: the nesting of calls is that of the layout. Allocation follows the input only as far as
bytes back it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from tidelog.model import ErrorCode
from tidelog.wire.elements import ElementBudget
from tidelog.wire.encoding import Encoding, ReadCount, encoding_of
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.layout import (
    FIXED_FORMATS,
    FIXED_SIZES,
    UUID,
    FieldLayout,
    StructLayout,
    fixed_array_layouts,
    smallest_element_size,
)
from tidelog.wire.primitives import read_uuid
from tidelog.wire.tagged import read_tag_value, read_tagged_fields, skip_tagged_fields

Decode: TypeAlias = Callable[[memoryview, int], tuple[object, int]]
"""Reads one value at a position; returns it and the position after it."""

_Values: TypeAlias = dict[str, object]
_Step: TypeAlias = Callable[[memoryview, int, _Values], int]

_ERROR_CODES: Final = {int(code): code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The code with this number; one newer than we are means no more to us than that something failed."""
    return _ERROR_CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def compile_decoder(layout: StructLayout, budget: ElementBudget | None = None) -> Decode:
    """A function that reads one struct of this layout; `budget`, if any, bounds what its arrays hold together."""
    steps = _steps(layout, budget)
    message_type = layout.message_type

    def decode_struct(data: memoryview, position: int) -> tuple[object, int]:
        values: _Values = {}
        for step in steps:
            position = step(data, position, values)
        return message_type(**values), position

    return decode_struct


def _steps(layout: StructLayout, budget: ElementBudget | None) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    run: list[FieldLayout] = []
    for field in layout.fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_run(run))
            run = []
        steps.append(_single(field.name, _value_decoder(field, layout, budget)))
    if run:
        steps.append(_fixed_run(run))
    if layout.is_flexible:
        steps.append(_tagged_section(layout, budget) if layout.tagged else _no_known_tags)
    return tuple(steps)


def _fixed_run(run: list[FieldLayout]) -> _Step:
    """Neighbouring fields of fixed size are unpacked at once."""
    layout = Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in run))
    names = tuple(field.name for field in run)
    error_names = tuple(field.name for field in run if field.kafka_type == "error_code")

    def read_run(data: memoryview, position: int, values: _Values) -> int:
        values.update(zip(names, layout.unpack_from(data, position), strict=True))
        return position + layout.size

    def read_run_with_errors(data: memoryview, position: int, values: _Values) -> int:
        numbers = dict(zip(names, layout.unpack_from(data, position), strict=True))
        values.update(numbers)
        for name in error_names:
            values[name] = error_code(numbers[name])
        return position + layout.size

    return read_run_with_errors if error_names else read_run


def _single(name: str, decode: Decode) -> _Step:
    def read_single(data: memoryview, position: int, values: _Values) -> int:
        values[name], position = decode(data, position)
        return position

    return read_single


def _no_known_tags(data: memoryview, position: int, values: _Values) -> int:
    del values
    return skip_tagged_fields(data, position)


def _tagged_section(layout: StructLayout, budget: ElementBudget | None) -> _Step:
    known = {
        field.tag: (field.name, _value_decoder(field, layout, budget))
        for field in layout.tagged
        if field.tag is not None
    }
    below = max(known) + 1

    def read_tagged_section(data: memoryview, position: int, values: _Values) -> int:
        if data[position] == 0:
            return position + 1
        found, position = read_tagged_fields(data, position, below=below)
        for tag, value in found.items():
            if tag in known:
                name, decode = known[tag]
                values[name] = read_tag_value(decode, value)
        return position

    return read_tagged_section


def _value_decoder(field: FieldLayout, parent: StructLayout, budget: ElementBudget | None) -> Decode:
    encoding = encoding_of(is_flexible=parent.is_flexible)
    if field.is_array:
        element_size = smallest_element_size(field, parent)
        return _array_decoder(field, encoding, budget, element_size=element_size)
    if field.struct is not None and field.is_nullable:
        return _nullable_struct_decoder(compile_decoder(field.struct, budget))
    return _element_decoder(field, encoding, budget, is_nullable=field.is_nullable)


def _element_decoder(
    field: FieldLayout, encoding: Encoding, budget: ElementBudget | None, *, is_nullable: bool
) -> Decode:
    if field.struct is not None:
        return compile_decoder(field.struct, budget)
    if field.kafka_type == UUID:
        return read_uuid
    if field.kafka_type in FIXED_FORMATS:
        return _fixed_decoder(field.kafka_type)
    if field.kafka_type == "string":
        return encoding.read_nullable_string if is_nullable else encoding.read_string
    return _bytes_decoder(encoding, is_nullable=is_nullable)


def _fixed_decoder(kafka_type: str) -> Decode:
    layout = Struct(">" + FIXED_FORMATS[kafka_type])
    is_error_code = kafka_type == "error_code"

    def read_fixed(data: memoryview, position: int) -> tuple[object, int]:
        (value,) = layout.unpack_from(data, position)
        return (error_code(value) if is_error_code else value), position + layout.size

    return read_fixed


def _bytes_decoder(encoding: Encoding, *, is_nullable: bool) -> Decode:
    read_length = encoding.read_length

    def read_bytes(data: memoryview, position: int) -> tuple[object, int]:
        length, start = read_length(data, position)
        if length >= 0:
            return bytes(data[start : start + length]), start + length
        if is_nullable:
            return None, start
        raise MalformedMessage(f"null bytes at byte {position}")

    return read_bytes


def _array_decoder(
    field: FieldLayout, encoding: Encoding, budget: ElementBudget | None, *, element_size: int
) -> Decode:
    is_fixed = field.kafka_type in FIXED_FORMATS
    read_count = encoding.read_nullable_count if field.is_nullable else encoding.read_count
    if is_fixed and field.kafka_type != "error_code":
        return _fixed_array_decoder(FIXED_FORMATS[field.kafka_type or ""], read_count, budget)
    decode = _element_decoder(field, encoding, budget, is_nullable=False)

    def read_array(data: memoryview, position: int) -> tuple[object, int]:
        count, position = read_count(data, position, element_size=element_size)
        if count < 0:
            return None, position
        if budget is not None:
            budget.spend(count, is_fixed=is_fixed)
        elements = []
        for _ in range(count):
            element, position = decode(data, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


def _fixed_array_decoder(format_character: str, read_count: ReadCount, budget: ElementBudget | None) -> Decode:
    """Numbers are unpacked all at once; replicas and partitions come in such arrays."""
    element_size = FIXED_SIZES[format_character]
    layouts = fixed_array_layouts(format_character)

    def read_fixed_array(data: memoryview, position: int) -> tuple[object, int]:
        count, position = read_count(data, position, element_size=element_size)
        if count < 0:
            return None, position
        if budget is not None:
            budget.spend(count, is_fixed=True)
        layout = layouts[count] if count < len(layouts) else Struct(f">{count}{format_character}")
        return layout.unpack_from(data, position), position + layout.size

    return read_fixed_array


def _nullable_struct_decoder(decode: Decode) -> Decode:
    """A struct that may be null is preceded by a byte: negative is null (KIP-893)."""

    def read_nullable_struct(data: memoryview, position: int) -> tuple[object, int]:
        return (None, position + 1) if data[position] >= 0x80 else decode(data, position + 1)

    return read_nullable_struct

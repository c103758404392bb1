"""Kafka's variable-length types, read within bounds and written; in their classic and their compact encoding.

Readers take the whole body and a position and return the value and the position after it. Every length and count is
compared with the bytes that remain before anything is allocated. Running off the end shows as `struct.error` or
`IndexError`, which the codec turns into MalformedMessage once per message, so that the common case pays for no check
that the interpreter makes anyway.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.wire.errors import MalformedMessage, UnencodableMessage

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes on their way to or from a socket."""

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
ZERO_UUID: Final = bytes(16)
CLASSIC_STRING_BYTES_MAX: Final = 0x7FFF

_UVARINT_BYTES_MAX: Final = 5


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint below 2^32 in at most five bytes; padded encodings are legal, as they are in Kafka."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value = first & 0x7F | (second & 0x7F) << 7
    for index in range(2, _UVARINT_BYTES_MAX):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 32:
                break
            return value, position + index + 1
    raise MalformedMessage(f"a varint at byte {position} exceeds 32 bits")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` in as few bytes as it needs."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_classic_length(data: memoryview, position: int) -> tuple[int, int]:
    """The length of classic bytes, which fits the rest of the body; -1 is null."""
    (length,) = INT32.unpack_from(data, position)
    return _bounded(data, position, length=length, start=position + 4)


def read_compact_length(data: memoryview, position: int) -> tuple[int, int]:
    """The length of compact bytes, which fits the rest of the body; -1 is null."""
    length, start = read_uvarint(data, position)
    if length > len(data) - start + 1:
        return _bounded(data, position, length=length - 1, start=start)
    return length - 1, start


def read_classic_nullable_string(data: memoryview, position: int) -> tuple[str | None, int]:
    """A string after an int16 length; -1 is null."""
    (length,) = INT16.unpack_from(data, position)
    start = position + 2
    end = start + length
    if end > len(data) or length < 0:
        return None, _bounded(data, position, length=length, start=start)[1]
    return str(data[start:end], "utf-8"), end


def read_compact_nullable_string(data: memoryview, position: int) -> tuple[str | None, int]:
    """A string after a varint of length + 1; 0 is null."""
    length = data[position] - 1
    start = position + 1
    if length >= 0x7F:
        length, start = read_uvarint(data, position)
        length -= 1
    end = start + length
    if end > len(data) or length < 0:
        return None, _bounded(data, position, length=length, start=start)[1]
    return str(data[start:end], "utf-8"), end


def read_classic_string(data: memoryview, position: int) -> tuple[str, int]:
    """A string after an int16 length."""
    text, end = read_classic_nullable_string(data, position)
    if text is None:
        raise MalformedMessage(f"a null string at byte {position}")
    return text, end


def read_compact_string(data: memoryview, position: int) -> tuple[str, int]:
    """A string after a varint of length + 1."""
    text, end = read_compact_nullable_string(data, position)
    if text is None:
        raise MalformedMessage(f"a null string at byte {position}")
    return text, end


def read_classic_nullable_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a classic array has: no more than the rest of the body can hold; -1 is null."""
    (count,) = INT32.unpack_from(data, position)
    return _bounded_count(data, position, count=count, start=position + 4, element_size=element_size)


def read_compact_nullable_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a compact array has: no more than the rest of the body can hold; -1 is null."""
    count, start = read_uvarint(data, position)
    return _bounded_count(data, position, count=count - 1, start=start, element_size=element_size)


def read_classic_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a classic array has that may not be null."""
    count, start = read_classic_nullable_count(data, position, element_size=element_size)
    if count < 0:
        raise MalformedMessage(f"a null array at byte {position}")
    return count, start


def read_compact_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a compact array has that may not be null."""
    count = data[position] - 1
    if 0 <= count < 0x7F and count * element_size < len(data) - position:  # nearly always: one byte, and it fits
        return count, position + 1
    count, start = read_compact_nullable_count(data, position, element_size=element_size)
    if count < 0:
        raise MalformedMessage(f"a null array at byte {position}")
    return count, start


def read_uuid(data: memoryview, position: int) -> tuple[UUID | None, int]:
    """An id of 16 bytes; all zero means none."""
    end = position + 16
    if end > len(data):
        raise MalformedMessage(f"a uuid at byte {position} is cut short")
    return _uuid_from_bytes(bytes(data[position:end])), end


@lru_cache(maxsize=4096)
def _uuid_from_bytes(raw: bytes) -> UUID | None:
    """Remembered, since the same few topic ids come back with every request."""
    return None if raw == ZERO_UUID else UUID(bytes=raw)


def write_uuid(out: bytearray, identifier: UUID | None) -> None:
    """Append the 16 bytes of an id; none is all zero."""
    out += ZERO_UUID if identifier is None else identifier.bytes


def write_classic_length(out: bytearray, value: Sized | None) -> None:
    """Append the length of bytes, or the count of an array; null is -1."""
    out += INT32.pack(-1 if value is None else len(value))


def write_compact_length(out: bytearray, value: Sized | None) -> None:
    """Append the length of bytes, or the count of an array, plus 1; null is 0."""
    write_uvarint(out, 0 if value is None else len(value) + 1)


def write_classic_string(out: bytearray, text: str | None) -> None:
    """Append an int16 length and UTF-8; a text over 32,767 bytes has no classic form."""
    if text is None:
        out += b"\xff\xff"
        return
    encoded = text.encode()
    if len(encoded) > CLASSIC_STRING_BYTES_MAX:
        raise UnencodableMessage(f"a classic string cannot have {len(encoded)} bytes")
    out += INT16.pack(len(encoded))
    out += encoded


def write_compact_string(out: bytearray, text: str | None) -> None:
    """Append a varint of length + 1 and UTF-8."""
    if text is None:
        out.append(0)
        return
    encoded = text.encode()
    write_uvarint(out, len(encoded) + 1)
    out += encoded


def _bounded(data: memoryview, position: int, *, length: int, start: int) -> tuple[int, int]:
    remaining = len(data) - start
    if length > remaining:
        raise MalformedMessage(f"a length of {length} at byte {position}, where {remaining} bytes remain")
    if length < -1:
        raise MalformedMessage(f"a length of {length} at byte {position}")
    return length, start


def _bounded_count(data: memoryview, position: int, *, count: int, start: int, element_size: int) -> tuple[int, int]:
    remaining = len(data) - start
    if count * element_size > remaining:
        raise MalformedMessage(f"a count of {count} at byte {position}, where {remaining} bytes remain")
    if count < -1:
        raise MalformedMessage(f"a count of {count} at byte {position}")
    return count, start

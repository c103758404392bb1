"""Kafka's variable-length types, read within bounds and written.

Readers take the whole body and a position and return the value and the position after it. Every length and count is compared with the
bytes that remain before anything is allocated. Running off the end shows as `struct.error` or `IndexError`, which the codec turns into
MalformedMessage once per message, so that the common case pays for no check that the interpreter makes anyway.
"""

from __future__ import annotations

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
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, _UVARINT_BYTES_MAX):
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


def uvarint(value: int) -> bytes:
    """`value` as a varint of its own, for splicing between other bytes."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def read_classic_length(data: memoryview, position: int, *, width: Struct) -> tuple[int, int]:
    """The length of a classic string (int16) or of bytes (int32), which fits the rest of the body; -1 is null."""
    (length,) = width.unpack_from(data, position)
    return _bounded(data, position, length, position + width.size)


def read_compact_length(data: memoryview, position: int) -> tuple[int, int]:
    """The length of a compact string or of compact bytes, which fits the rest of the body; -1 is null."""
    length, after = read_uvarint(data, position)
    return _bounded(data, position, length - 1, after)


def read_classic_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a classic array has: no more than the rest of the body can hold; -1 is null."""
    (count,) = INT32.unpack_from(data, position)
    return _bounded_count(data, position, count, position + 4, element_size)


def read_compact_count(data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
    """How many elements a compact array has: no more than the rest of the body can hold; -1 is null."""
    count, after = read_uvarint(data, position)
    return _bounded_count(data, position, count - 1, after, element_size)


def skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after a tagged section none of whose fields we know."""
    if data[position] == 0:
        return position + 1
    count, position = read_tag_count(data, position)
    tag = -1
    for _ in range(count):
        tag, size, position = read_tag(data, position, previous_tag=tag)
        position += size
    return position


def read_tag_count(data: memoryview, position: int) -> tuple[int, int]:
    """How many fields a tagged section has; each takes two bytes at least."""
    count, after = read_uvarint(data, position)
    return _bounded_count(data, position, count, after, 2)


def read_tag(data: memoryview, position: int, *, previous_tag: int) -> tuple[int, int, int]:
    """A tag, its size and where its bytes begin. Tags ascend, hence none comes twice; the size fits the rest of the body."""
    tag, after = read_uvarint(data, position)
    if tag <= previous_tag:
        raise MalformedMessage(f"tag {tag} at byte {position} follows tag {previous_tag}")
    size, start = read_uvarint(data, after)
    _bounded(data, after, size, start)
    return tag, size, start


def write_classic_string(out: bytearray, text: str) -> None:
    """Append an int16 length and UTF-8; a text over 32,767 bytes has no classic form."""
    encoded = text.encode()
    if len(encoded) > CLASSIC_STRING_BYTES_MAX:
        raise UnencodableMessage(
            f"a string of {len(encoded)} bytes exceeds the {CLASSIC_STRING_BYTES_MAX} of a classic string"
        )
    out += INT16.pack(len(encoded))
    out += encoded


def write_compact_string(out: bytearray, text: str) -> None:
    """Append a varint of length + 1 and UTF-8."""
    encoded = text.encode()
    write_uvarint(out, len(encoded) + 1)
    out += encoded


@lru_cache(maxsize=4096)
def uuid_from_bytes(raw: bytes) -> UUID | None:
    """The id in 16 bytes; all zero means none. Remembered, since topic ids come back with every request."""
    return None if raw == ZERO_UUID else UUID(bytes=raw)


def uuid_to_bytes(identifier: UUID | None) -> bytes:
    """The 16 bytes of an id; none is all zero."""
    return ZERO_UUID if identifier is None else identifier.bytes


def _bounded(data: memoryview, position: int, length: int, start: int) -> tuple[int, int]:
    if length > len(data) - start:
        raise MalformedMessage(
            f"a length of {length} at byte {position} exceeds the {len(data) - start} bytes that remain"
        )
    if length < -1:
        raise MalformedMessage(f"a negative length of {length} at byte {position}")
    return length, start


def _bounded_count(data: memoryview, position: int, count: int, start: int, element_size: int) -> tuple[int, int]:
    if count * element_size > len(data) - start:
        raise MalformedMessage(
            f"a count of {count} at byte {position} exceeds what the {len(data) - start} bytes that remain can hold"
        )
    if count < -1:
        raise MalformedMessage(f"a negative count of {count} at byte {position}")
    return count, start

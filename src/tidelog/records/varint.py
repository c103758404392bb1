"""Zig-zag variable-length integers, as records use them (the flexible wire encoding has another, unsigned kind)."""

from __future__ import annotations

from typing import Final

from tidelog.records.corrupt import CorruptBatch
from tidelog.runtime.disk import Buffer


def encode_varint(number: int) -> bytes:
    """The zig-zag encoding of a signed number of up to 64 bits."""
    if 0 <= number < _SMALL_COUNT:
        return _SMALL[number]
    return _encode(number)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 32-bit number and the position after it. Raises IndexError at the end, CorruptBatch for more bits."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _INT32_BYTES)


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 64-bit number and the position after it; raises as `read_varint` does."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _INT64_BYTES)


_INT32_BYTES: Final = 5
_INT64_BYTES: Final = 10


def _read(buffer: Buffer, position: int, bytes_max: int) -> tuple[int, int]:
    start = position
    number = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if position - start == bytes_max:
            raise CorruptBatch(f"a variable-length number at {start} has no end")
    bits = 32 if bytes_max == _INT32_BYTES else 64
    if number >> bits:
        raise CorruptBatch(f"the variable-length number at {start} is larger than {bits} bits")
    return (number >> 1) ^ -(number & 1), position


def _encode(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL_COUNT: Final = 8192  # all that fit in two bytes
_SMALL: Final = [bytes((2 * number,)) for number in range(64)] + [
    bytes((2 * number & 0x7F | 0x80, 2 * number >> 7)) for number in range(64, _SMALL_COUNT)
]

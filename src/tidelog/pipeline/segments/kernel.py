"""Walks from header to header over bytes of a segment, compiled. Bytes may be hostile: a header is read only of a batch that is there whole."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelog.pipeline.codec.compiling import compiled
from tidelog.pipeline.codec.records_kernel import Bytes, Int, Int64s

HEADER_SIZE: Final = 61

# What a batch says of itself: columns of `rows`.
POSITION: Final = 0
SIZE: Final = 1
BASE_OFFSET: Final = 2
LAST_OFFSET: Final = 3
LEADER_EPOCH: Final = 4
CRC: Final = 5
ATTRIBUTES: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12
CONTROL_TYPE: Final = 13
DIGEST: Final = 14
ROW_WIDTH: Final = 15

NO_CONTROL: Final = -1
EMPTY_CONTROL: Final = -2  # a control batch without a record that can be read: compaction has emptied it
OFFSET_MAX: Final = 1 << 62
CHECKED_FROM: Final = 21  # of a batch, bytes from here on are covered by the checksum

_CONTROL_BIT: Final = 0x20
_MAGIC: Final = 2
_MAGIC_AT: Final = 16
_LENGTH_OVERHEAD: Final = 12
_BAD: Final = -1
_VARINT_BYTES_MAX: Final = 10
_CONTROL_KEY_BYTES: Final = 4
_PRIME: Final = 0x9E3779B97F4A7C15


@compiled
def walk(data: Bytes, rows: Int64s) -> int:
    """Fill rows with the whole batches from the start of the data on; how many there were, or there was room for."""
    count = 0
    position: Int = 0
    while count < rows.shape[0]:
        size = batch_size(data, position)
        if size == 0:
            break
        _read_header(data, position, size, rows[count])
        rows[count, DIGEST] = digest(data, position, position + size)
        count += 1
        position += size
    return count


@compiled
def batch_size(data: Bytes, position: Int) -> Int:
    """Bytes of the whole batch at `position`, or 0 where none is."""
    remaining = data.size - position
    if remaining < HEADER_SIZE or data[position + _MAGIC_AT] != _MAGIC:
        return 0
    size = _integer(data, position + 8, 4) + _LENGTH_OVERHEAD
    if not HEADER_SIZE <= size <= remaining:
        return 0
    # Nobody has written so many records; and what is reckoned with offsets cannot overflow.
    base_offset, last_offset_delta = _integer(data, position, 8), _integer(data, position + 23, 4)
    return size if 0 <= base_offset < OFFSET_MAX and last_offset_delta >= 0 else 0


@compiled
def _read_header(data: Bytes, position: Int, size: Int, row: Int64s) -> None:
    row[POSITION] = position
    row[SIZE] = size
    row[BASE_OFFSET] = _integer(data, position, 8)
    row[LEADER_EPOCH] = _integer(data, position + 12, 4)
    row[CRC] = _integer(data, position + 17, 4) & 0xFFFFFFFF
    row[ATTRIBUTES] = _integer(data, position + 21, 2)
    row[LAST_OFFSET] = row[BASE_OFFSET] + _integer(data, position + 23, 4)
    row[BASE_TIMESTAMP] = _integer(data, position + 27, 8)
    row[MAX_TIMESTAMP] = _integer(data, position + 35, 8)
    row[PRODUCER_ID] = _integer(data, position + 43, 8)
    row[PRODUCER_EPOCH] = _integer(data, position + 51, 2)
    row[BASE_SEQUENCE] = _integer(data, position + 53, 4)
    row[RECORD_COUNT] = _integer(data, position + 57, 4)
    row[CONTROL_TYPE] = NO_CONTROL
    if row[ATTRIBUTES] & _CONTROL_BIT:
        row[CONTROL_TYPE] = _control_type(data, position + HEADER_SIZE, position + size)


@compiled
def _control_type(data: Bytes, position: Int, end: Int) -> Int:
    """The type in the key of the first record: after its length, attributes, time and offset come the key's length, version and type."""
    value: Int = 0
    for number in range(4):
        if number == 1:
            position += 1  # attributes
        value, position = _varint(data, position, end)
        if position == _BAD:
            return EMPTY_CONTROL
    if value < _CONTROL_KEY_BYTES or position + _CONTROL_KEY_BYTES > end:
        return EMPTY_CONTROL
    return _integer(data, position + 2, 2)


@compiled
def _varint(data: Bytes, position: Int, end: Int) -> tuple[Int, Int]:
    """A number and the position after it, or _BAD as that position."""
    raw = np.int64(0)
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= end:
            break
        byte = np.int64(data[position + index])
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    return raw, _BAD


@compiled
def digest(data: Bytes, start: Int, end: Int) -> Int:
    """64 bits of all bytes from start to end: two stretches of bytes that differ have the same by chance only.

    Four lanes, since each step of a lane waits for the one before.
    """
    first = second = third = fourth = np.uint64(_PRIME)
    position = start
    while position + 32 <= end:
        first = _mixed(first, _word(data, position))
        second = _mixed(second, _word(data, position + 8))
        third = _mixed(third, _word(data, position + 16))
        fourth = _mixed(fourth, _word(data, position + 24))
        position += 32
    state = _mixed(_mixed(_mixed(_mixed(np.uint64(end - start), first), second), third), fourth)
    while position < end:
        state = _mixed(state, np.uint64(data[position]))
        position += 1
    return np.int64(state)


@compiled
def _mixed(state: np.uint64, word: np.uint64) -> np.uint64:
    product = (state ^ word) * np.uint64(_PRIME)
    return product ^ (product >> np.uint64(29))


@compiled
def _word(data: Bytes, position: Int) -> np.uint64:
    """Eight bytes, whatever the order of the machine. Unsigned positions: there is no look whether one counts from the end."""
    at = np.uintp(position)
    word = np.uint64(data[at])
    word |= np.uint64(data[at + np.uintp(1)]) << np.uint64(8)
    word |= np.uint64(data[at + np.uintp(2)]) << np.uint64(16)
    word |= np.uint64(data[at + np.uintp(3)]) << np.uint64(24)
    word |= np.uint64(data[at + np.uintp(4)]) << np.uint64(32)
    word |= np.uint64(data[at + np.uintp(5)]) << np.uint64(40)
    word |= np.uint64(data[at + np.uintp(6)]) << np.uint64(48)
    word |= np.uint64(data[at + np.uintp(7)]) << np.uint64(56)
    return word


@compiled
def _integer(data: Bytes, position: Int, width: int) -> Int:
    """A signed big-endian number. The caller knows that it lies within the data."""
    number = np.int64(data[position])
    if number >= 128:
        number -= 256
    for index in range(1, width):
        number = (number << 8) | np.int64(data[position + index])
    return number

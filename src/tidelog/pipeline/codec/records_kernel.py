"""Finds the batches in fetched bytes and the records in batches, and copies their parts into the buffers of Arrow columns.

Bytes may be hostile. Headers are read of batches alone that lie whole within the data. Every number of a record is read by `_varint`, which
looks at no byte at or after the end it is given, and says `_BAD`, a position beyond every end, when it fails. A length may lead anywhere: the
number after it is not read when that is past the end, and then all that follows fails, too. Positions never go back. So a record whose last
part ends exactly at its end has all its parts within it, and one look there is enough. `index_records` lists only such records, as many as
the list has room for; the other kernels take their lists from it, and buffers of the sizes that these lists add up to.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.pipeline.codec.compiling import compiled

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Int: TypeAlias = int | np.int64
Fields: TypeAlias = tuple[Int, Int, Int, Int, Int, Int, Int, Int, Int]

HEADER_SIZE: Final = 61  # of a batch

# What a batch says of itself: columns of `batches`.
START: Final = 0  # of its records
END: Final = 1
BASE_OFFSET: Final = 2
LAST_OFFSET_DELTA: Final = 3
CRC: Final = 4
ATTRIBUTES: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
PRODUCER_ID: Final = 8
RECORD_COUNT: Final = 9
BATCH_WIDTH: Final = 10

# Where the parts of a record are: rows of `records`, with a column per record. A negative length is a null.
OFFSET: Final = 0
TIMESTAMP: Final = 1  # in microseconds
TIMESTAMP_TYPE: Final = 2
KEY_START: Final = 3
KEY_LENGTH: Final = 4
VALUE_START: Final = 5
VALUE_LENGTH: Final = 6
HEADERS_START: Final = 7
HEADER_COUNT: Final = 8
RECORD_HEIGHT: Final = 9

# The same of a header.
NAME_START: Final = 0
NAME_LENGTH: Final = 1
CONTENT_START: Final = 2
CONTENT_LENGTH: Final = 3
HEADER_HEIGHT: Final = 4

# How far the reading has come: places in `progress`. It begins with zeros.
BATCHES_DONE: Final = 0
RECORDS_DONE: Final = 1  # of the batch after those
POSITION: Final = 2  # of the next record, unless it is the first of its batch
LAST_DELTA: Final = 3
LISTED: Final = 4  # records in the list
LISTED_BYTES: Final = 5
PROGRESS: Final = 6

# What is wrong with the record at POSITION of the batch after BATCHES_DONE.
FINE: Final = 0
CUT_SHORT: Final = 1
OUT_OF_ORDER: Final = 2
LEFT_OVER: Final = 3
FAULTS: Final = {
    CUT_SHORT: "is cut short, or its lengths do not fit into each other",
    OUT_OF_ORDER: "has an offset that does not follow the one before, or is past the last of the batch",
    LEFT_OVER: "does not begin where the records should end",
}

_BAD: Final = 1 << 62
_LENGTH_OVERHEAD: Final = 12
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_APPEND_TIME_BIT: Final = 8
_MILLISECONDS_MAX: Final = ((1 << 63) - 1) // 1000


@compiled
def count_batches(data: Bytes) -> int:
    """How many whole batches there are, one after the other, before the end, a torn batch, or what is no batch."""
    count = 0
    position: Int = 0
    while True:
        size = _batch_size(data, position)
        if size == 0:
            return count
        count += 1
        position += size


@compiled
def read_headers(data: Bytes, batches: Int64s) -> None:
    """Fill the table with the headers of as many batches as it has rows, which `count_batches` has counted."""
    position: Int = 0
    for row in range(batches.shape[0]):
        size = _batch_size(data, position)
        batches[row, START] = position + HEADER_SIZE
        batches[row, END] = position + size
        batches[row, BASE_OFFSET] = _integer(data, position, 8)
        batches[row, CRC] = _integer(data, position + 17, 4) & 0xFFFFFFFF
        batches[row, ATTRIBUTES] = _integer(data, position + 21, 2)
        batches[row, LAST_OFFSET_DELTA] = _integer(data, position + 23, 4)
        batches[row, BASE_TIMESTAMP] = _integer(data, position + 27, 8)
        batches[row, MAX_TIMESTAMP] = _integer(data, position + 35, 8)
        batches[row, PRODUCER_ID] = _integer(data, position + 43, 8)
        batches[row, RECORD_COUNT] = _integer(data, position + 57, 4)
        position += size


@compiled
def _batch_size(data: Bytes, position: Int) -> Int:
    """Bytes of the whole batch at `position`, or 0 where none is."""
    remaining = data.size - position
    if remaining < HEADER_SIZE or data[position + _MAGIC_AT] != _MAGIC:
        return 0
    size = _integer(data, position + _LENGTH_AT, 4) + _LENGTH_OVERHEAD
    return size if HEADER_SIZE <= size <= remaining else 0


@compiled
def _integer(data: Bytes, position: Int, width: int) -> Int:
    """A signed big-endian number. The caller knows that it lies within the data."""
    number = np.int64(data[position])
    if number >= 128:
        number -= 256
    for index in range(1, width):
        number = (number << 8) | np.int64(data[position + index])
    return number


@compiled
def index_records(
    data: Bytes, batches: Int64s, offsets: tuple[int, int], bytes_max: int, records: Int64s, progress: Int64s
) -> int:
    """List the records with an offset in the range, until the list is full, its records are so many bytes, or the batches end.

    Returns what is wrong, or FINE.
    """
    progress[LISTED] = 0
    progress[LISTED_BYTES] = 0
    while progress[BATCHES_DONE] < batches.shape[0]:
        batch = batches[progress[BATCHES_DONE]]
        if progress[RECORDS_DONE] == 0:
            progress[POSITION] = batch[START]
            progress[LAST_DELTA] = -1
        fault = _index_batch(data, batch, offsets, bytes_max, records, progress)
        if fault != FINE or progress[RECORDS_DONE] < batch[RECORD_COUNT]:
            return fault
        if progress[POSITION] != batch[END]:
            return LEFT_OVER
        progress[BATCHES_DONE] += 1
        progress[RECORDS_DONE] = 0
    return FINE


@compiled
def _index_batch(
    data: Bytes, batch: Int64s, offsets: tuple[int, int], bytes_max: int, records: Int64s, progress: Int64s
) -> int:
    """List records of one batch from where the progress is."""
    position, delta, row = progress[POSITION], progress[LAST_DELTA], progress[LISTED]
    bytes_left = bytes_max - progress[LISTED_BYTES]
    done = progress[RECORDS_DONE]
    fault = FINE
    while done < batch[RECORD_COUNT] and row < records.shape[1] and bytes_left > 0:
        fields = _read_fields(data, position, batch[END])
        if fields[0] > batch[END]:
            fault = CUT_SHORT
            break
        if not delta < fields[2] <= batch[LAST_OFFSET_DELTA]:
            fault = OUT_OF_ORDER
            break
        if offsets[0] <= batch[BASE_OFFSET] + fields[2] < offsets[1]:
            _list_record(batch, fields, records, row)
            row += 1
            bytes_left -= fields[0] - position
        position, delta = fields[0], fields[2]
        done += 1
    progress[POSITION] = position
    progress[LAST_DELTA] = delta
    progress[RECORDS_DONE] = done
    progress[LISTED] = row
    progress[LISTED_BYTES] = bytes_max - bytes_left
    return fault


@compiled
def _list_record(batch: Int64s, fields: Fields, records: Int64s, row: Int) -> None:
    is_append_time = (batch[ATTRIBUTES] & _APPEND_TIME_BIT) != 0
    milliseconds: Int = batch[MAX_TIMESTAMP] if is_append_time else batch[BASE_TIMESTAMP] + fields[1]
    records[OFFSET, row] = batch[BASE_OFFSET] + fields[2]
    # Times too far away to be said in microseconds become the farthest that are not.
    records[TIMESTAMP, row] = min(max(milliseconds, -_MILLISECONDS_MAX), _MILLISECONDS_MAX) * 1000
    records[TIMESTAMP_TYPE, row] = is_append_time
    records[KEY_START, row] = fields[3]
    records[KEY_LENGTH, row] = fields[4]
    records[VALUE_START, row] = fields[5]
    records[VALUE_LENGTH, row] = fields[6]
    records[HEADERS_START, row] = fields[7]
    records[HEADER_COUNT, row] = fields[8]


@compiled
def _read_fields(data: Bytes, start: Int, batch_end: Int) -> Fields:
    """End, time delta, offset delta, key and its length, value and its length, headers and their number; a bad record ends at `_BAD`."""
    length, position = _varint(data, start, batch_end, 5)
    end = position + length
    if end > batch_end:
        return _BAD, 0, 0, 0, 0, 0, 0, 0, 0
    timestamp_delta, position = _varint(data, position + 1, end, 10)
    offset_delta, position = _varint(data, position, end, 5)
    key_length, key_start = _varint(data, position, end, 5)
    value_length, value_start = _varint(data, _after(key_start, key_length), end, 5)
    header_count, headers_start = _varint(data, _after(value_start, value_length), end, 5)
    if _after_headers(data, headers_start, header_count, end) != end:
        end = _BAD
    return (
        end,
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
        headers_start,
        header_count,
    )


@compiled
def _varint(data: Bytes, position: Int, end: Int, bytes_max: int) -> tuple[Int, Int]:
    """A zig-zag number of 5 (32 bits) or 10 bytes (64 bits) at most, and the position after it."""
    if position >= end:
        return 0, _BAD
    byte = np.int64(data[position])
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varint(data, position, end, bytes_max)


@compiled
def _long_varint(data: Bytes, position: Int, end: Int, bytes_max: int) -> tuple[Int, Int]:
    number = np.int64(0)
    shift = 0
    for at in range(position, min(end, position + bytes_max)):
        byte = np.int64(data[at])
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The last possible byte may carry only what is left of 32 or 64 bits.
            if at + 1 == position + bytes_max and byte > (0x0F if bytes_max == 5 else 0x01):
                return 0, _BAD
            return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), at + 1
        shift += 7
    return 0, _BAD


@compiled
def _after(start: Int, length: Int) -> Int:
    """The position after so many bytes, or after none where the length says null."""
    return start + max(length, 0)


@compiled
def _after_headers(data: Bytes, position: Int, count: Int, end: Int) -> Int:
    if count < 0:
        return _BAD
    for _ in range(count):
        length, position = _varint(data, position, end, 5)
        if length < 0:
            return _BAD
        length, position = _varint(data, position + length, end, 5)
        position = _after(position, length)
        if position > end:
            return _BAD  # at once, whatever the count: it may be two billion
    return position


@compiled
def index_headers(data: Bytes, starts: Int64s, counts: Int64s, headers: Int64s) -> None:
    """List the headers of all listed records."""
    at = 0
    for row in range(starts.size):
        position: Int = starts[row]
        for _ in range(counts[row]):
            length, position = _varint(data, position, data.size, 5)
            headers[NAME_START, at] = position
            headers[NAME_LENGTH, at] = length
            length, position = _varint(data, position + length, data.size, 5)
            headers[CONTENT_START, at] = position
            headers[CONTENT_LENGTH, at] = length
            position = _after(position, length)
            at += 1


@compiled
def copy_listed(data: Bytes, starts: Int64s, lengths: Int64s, out: Bytes, offsets: Int32s, validity: Bytes) -> None:
    """Copy the listed pieces one after the other, as an Arrow column of bytes."""
    filled = np.uint64(0)
    for row in range(starts.size):
        if lengths[row] >= 0:
            # Numbers that cannot be negative let the compiler copy many bytes at once.
            start, length = np.uint64(starts[row]), np.uint64(lengths[row])
            for index in range(length):
                out[filled + index] = data[start + index]
            filled += length
            validity[row >> 3] |= np.uint8(1 << (row & 7))
        offsets[row + 1] = filled

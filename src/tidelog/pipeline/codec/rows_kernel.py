"""Gives rows of Arrow columns to partitions and batches, and writes them as records into one buffer.

Column after column, over all rows: first the size of every row's record and the batch it goes to; then all places are known, so every part
is written where it belongs and nothing is moved. Offsets of columns are checked by `add_sizes` before anything else looks at them.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.pipeline.codec.compiling import compiled

Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Int: TypeAlias = int | np.int64

HEADER_SIZE: Final = 61

# Columns of the table of batches.
PARTITION: Final = 0
RECORD_COUNT: Final = 1
SIZE: Final = 2
TABLE_WIDTH: Final = 3

# Columns of the table of rows.
BATCH: Final = 0
DELTA: Final = 1
POSITION: Final = 2
ROW_WIDTH: Final = 3

_SIZE_MAX: Final = (1 << 31) - 1 - HEADER_SIZE


class BinaryColumn(NamedTuple):
    """An Arrow column of bytes: row `i` is `data[offsets[i]:offsets[i + 1]]`, or null if bit `validity_start + i` is not set."""

    offsets: Int64s
    data: Bytes
    validity: Bytes
    """Empty where no row is null."""
    validity_start: int


@compiled
def add_sizes(column: BinaryColumn, sizes: Int64s) -> int:
    """Add to each row the bytes that its key or value takes in a record. Returns the first row that lies outside of the data, or -1."""
    offsets, validity, first_bit = column.offsets, column.validity, column.validity_start
    data_size = column.data.size
    for row in range(sizes.size):
        if _is_null(validity, first_bit + row):
            sizes[row] += 1
        else:
            length = offsets[row + 1] - offsets[row]
            if not 0 <= offsets[row] <= offsets[row + 1] <= data_size:
                return row
            sizes[row] += length + _varint_size(length)
    return -1


@compiled
def choose_partitions(column: BinaryColumn, partition_count: int, partitions: Int64s) -> None:
    """The partition of every row that has none yet (-1) and has a key."""
    offsets, data, validity, first_bit = column.offsets, column.data, column.validity, column.validity_start
    for row in range(partitions.size):
        if partitions[row] < 0 and not _is_null(validity, first_bit + row):
            partitions[row] = (_murmur2(data, offsets[row], offsets[row + 1]) & 0x7FFFFFFF) % partition_count


@compiled
def plan_batches(
    partitions: Int64s, sizes: Int64s, open_batches: Int64s, batch_bytes_max: int, table: Int64s, rows: Int64s
) -> tuple[int, int]:
    """Give every row its place. `sizes` are of records without length and offset delta, and become the whole record after its length.

    `open_batches` has a place for every partition, with -1 in it, and may have more for whatever else stands in `partitions`. Returns the
    number of batches, and the row whose record is too large for any batch, or -1.
    """
    count = 0
    for row in range(sizes.size):
        partition = partitions[row]
        batch = open_batches[partition]
        delta = table[batch, RECORD_COUNT] if batch >= 0 else 0
        size = _record_size(sizes[row], delta)
        if size > _SIZE_MAX:
            return count, row
        if batch < 0 or table[batch, SIZE] + size > batch_bytes_max:
            batch, delta = count, 0
            size = _record_size(sizes[row], delta)
            count += 1
            open_batches[partition] = batch
            table[batch, PARTITION] = partition
            table[batch, RECORD_COUNT] = 0
            table[batch, SIZE] = HEADER_SIZE
        rows[row, BATCH] = batch
        rows[row, DELTA] = delta
        rows[row, POSITION] = table[batch, SIZE]
        table[batch, RECORD_COUNT] += 1
        table[batch, SIZE] += size
        sizes[row] += _varint_size(delta)
    return count, -1


@compiled
def put_prefixes(out: Bytes, starts: Int64s, sizes: Int64s, rows: Int64s) -> None:
    """Begin every record: length, attributes and deltas. The position of a row is then that of its key."""
    for row in range(sizes.size):
        position = _put_varint(out, starts[rows[row, BATCH]] + rows[row, POSITION], sizes[row])
        out[position] = 0  # of attributes none are defined
        out[position + 1] = 0  # all records of a batch have its timestamp
        rows[row, POSITION] = _put_varint(out, position + 2, rows[row, DELTA])


@compiled
def put_column(out: Bytes, column: BinaryColumn, positions: Int64s) -> None:
    """Write the key, or the value, of every row at its position, which moves past it."""
    offsets, data, validity, first_bit = column.offsets, column.data, column.validity, column.validity_start
    for row in range(positions.size):
        if _is_null(validity, first_bit + row):
            out[positions[row]] = 1  # a length of -1
            positions[row] += 1
        else:
            length = offsets[row + 1] - offsets[row]
            position = _put_varint(out, positions[row], length)
            _copy(out, position, data, offsets[row], length)
            positions[row] = position + length


@compiled
def put_absent(out: Bytes, positions: Int64s, byte: int) -> None:
    """Write the one byte that stands for a null, or for no headers, in every row."""
    for row in range(positions.size):
        out[positions[row]] = byte
        positions[row] += 1


@compiled
def add_header_sizes(offsets: Int64s, header_sizes: Int64s, sizes: Int64s) -> None:
    """Add to each row the bytes that its headers take, which begin and end at its offsets."""
    for row in range(sizes.size):
        sizes[row] += _varint_size(offsets[row + 1] - offsets[row])
        for header in range(offsets[row], offsets[row + 1]):
            sizes[row] += header_sizes[header]


@compiled
def place_headers(
    out: Bytes, offsets: Int64s, header_sizes: Int64s, positions: Int64s, header_positions: Int64s
) -> None:
    """Write the number of headers of every row, and find the place of each header."""
    for row in range(positions.size):
        position = _put_varint(out, positions[row], offsets[row + 1] - offsets[row])
        for header in range(offsets[row], offsets[row + 1]):
            header_positions[header] = position
            position += header_sizes[header]
        positions[row] = position


@compiled
def _is_null(validity: Bytes, bit: Int) -> bool:
    return bool(validity.size) and not (validity[bit >> 3] >> (bit & 7)) & 1


@compiled
def _varint_size(number: Int) -> Int:
    """Bytes of a number that is not negative."""
    size = 1
    rest = number >> 6
    while rest:
        size += 1
        rest >>= 7
    return size


@compiled
def _record_size(fixed: Int, delta: Int) -> Int:
    body = fixed + _varint_size(delta)
    return body + _varint_size(body)


@compiled
def _put_varint(out: Bytes, position: Int, number: Int) -> Int:
    rest = number << 1
    while rest >= 0x80:
        out[position] = rest & 0x7F | 0x80
        position += 1
        rest >>= 7
    out[position] = rest
    return position + 1


@compiled
def _copy(out: Bytes, position: Int, data: Bytes, start: Int, length: Int) -> None:
    # Numbers that cannot be negative let the compiler copy many bytes at once.
    to, source = np.uint64(position), np.uint64(start)
    for index in range(np.uint64(length)):
        out[to + index] = data[source + index]


@compiled
def _murmur2(data: Bytes, start: Int, end: Int) -> Int:
    """Kafka's hash of a key."""
    multiplier = 0x5BD1E995
    mask = 0xFFFFFFFF
    length = end - start
    state: Int = (0x9747B28C ^ length) & mask
    whole = start + (length & ~3)
    for at in range(start, whole, 4):
        word = (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        word = word * multiplier & mask
        word ^= word >> 24
        state = (state * multiplier & mask) ^ (word * multiplier & mask)
    if whole < end:
        for at in range(whole, end):
            state ^= np.int64(data[at]) << (8 * (at - whole))
        state = state * multiplier & mask
    state ^= state >> 13
    state = state * multiplier & mask
    return state ^ state >> 15

"""Arrow to encoded record batches, ready to be produced once somebody has stamped them with a producer's identity."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from tidelog.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL_BIT, new_header, write_batch
from tidelog.records.compression import Codec, compress

if TYPE_CHECKING:
    from tidelog.pipeline.codec.arrow_rows import ArrowRows
    from tidelog.pipeline.codec.rows_kernel import BinaryColumn, Bytes, Int64s

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_AT: Final = 21
_CRC_AT: Final = 17
_LENGTH_AT: Final = 8
_IDENTITY_AT: Final = 43
_IDENTITY: Final = struct.Struct(">qhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_NULL: Final = 1  # how records say a length of -1
_NO_HEADERS: Final = 0
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A whole record batch at base offset 0, of no producer, with a valid checksum."""

    partition: int
    record_count: int
    data: memoryview
    """May be written to; several batches may be parts of one buffer."""
    max_timestamp: int


def encode(
    batch: pa.RecordBatch,
    *,
    partition_count: int,
    now_ms: int,
    compression: str,
    batch_bytes_max: int,
) -> list[EncodedBatch]:
    """The rows of one topic as record batches of at most so many bytes before compression, or of one record each.

    Columns: value, and perhaps key, partition and headers; others are passed over. Rows go to their partition, or where their key sends
    them, or together with other rows that have neither to one partition per batch. Raises ValueError for what cannot be encoded.
    """
    from tidelog.pipeline.codec.arrow_rows import ArrowRows  # with it comes the compiler

    codec = _codec_named(compression)
    if partition_count < 1:
        raise ValueError(f"a topic cannot have {partition_count} partitions")
    rows = ArrowRows(batch)
    if not rows.count:
        return []
    layout = _Layout(rows, partition_count, batch_bytes_max, now_ms)
    return [
        EncodedBatch(partition, record_count, _finished(data, record_count, codec, now_ms), now_ms)
        for partition, record_count, data in layout.written(rows)
    ]


def stamp(
    data: bytearray | memoryview,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
) -> None:
    """Make a batch that of a producer, in place, and renew its checksum."""
    (attributes,) = _INT16.unpack_from(data, _CHECKED_AT)
    attributes = attributes | TRANSACTIONAL_BIT if is_transactional else attributes & ~TRANSACTIONAL_BIT
    _INT16.pack_into(data, _CHECKED_AT, attributes)
    _IDENTITY.pack_into(data, _IDENTITY_AT, producer_id, producer_epoch, base_sequence)
    (length,) = _INT32.unpack_from(data, _LENGTH_AT)
    with memoryview(data) as view:
        _UINT32.pack_into(data, _CRC_AT, crc32c(view[_CHECKED_AT : LENGTH_OVERHEAD + length]))


def _codec_named(compression: str) -> Codec:
    codec = _CODECS.get(compression.lower())
    if codec is None:
        raise ValueError(f"no compression {compression!r}: accepted are {', '.join(_CODECS)}")
    return codec


class _Layout:
    """Which batch each row goes to, and where in it."""

    def __init__(self, rows: ArrowRows, partition_count: int, batch_bytes_max: int, now_ms: int) -> None:
        from tidelog.pipeline.codec import rows_kernel as kernel

        partitions = rows.partitions(partition_count)
        self._header_sizes = _header_sizes(rows)
        self._sizes = _sizes(rows, self._header_sizes)
        if partition_count == 1:
            partitions[:] = 0  # Rows with and without keys stay in order.
        elif rows.key is not None:
            kernel.choose_partitions(rows.key, partition_count, partitions)
        anywhere = partition_count  # One partition more, for rows that go anywhere; its batches are spread below.
        partitions[partitions < 0] = anywhere
        self._rows = np.empty((rows.count, kernel.ROW_WIDTH), np.int64)
        table = np.empty((rows.count, kernel.TABLE_WIDTH), np.int64)
        open_batches = np.full(partition_count + 1, -1, np.int64)
        count, refused = kernel.plan_batches(partitions, self._sizes, open_batches, batch_bytes_max, table, self._rows)
        if refused >= 0:
            raise ValueError(f"row {refused} is larger than any record batch can be")
        self._table = table[:count]
        _spread(self._table[:, kernel.PARTITION], partition_count, now_ms)

    def written(self, rows: ArrowRows) -> Iterator[tuple[int, int, memoryview]]:
        """Partition, number of records and bytes of every batch, without its header."""
        from tidelog.pipeline.codec import rows_kernel as kernel

        ends = np.cumsum(self._table[:, kernel.SIZE])
        starts = ends - self._table[:, kernel.SIZE]
        out = np.frombuffer(pa.allocate_buffer(int(ends[-1])), np.uint8)
        kernel.put_prefixes(out, starts, self._sizes, self._rows)
        positions = np.ascontiguousarray(self._rows[:, kernel.POSITION])
        for column in (rows.key, rows.value):
            if column is None:
                kernel.put_absent(out, positions, _NULL)
            else:
                kernel.put_column(out, column, positions)
        self._put_headers(rows, out, positions)
        view = out.data
        for (partition, record_count, size), start in zip(self._table.tolist(), starts.tolist(), strict=True):
            yield partition, record_count, view[start : start + size]

    def _put_headers(self, rows: ArrowRows, out: Bytes, positions: Int64s) -> None:
        from tidelog.pipeline.codec import rows_kernel as kernel

        if rows.headers is None:
            kernel.put_absent(out, positions, _NO_HEADERS)
            return
        places = np.empty(self._header_sizes.size, np.int64)
        kernel.place_headers(out, rows.headers.offsets, self._header_sizes, positions, places)
        kernel.put_column(out, rows.headers.names, places)
        kernel.put_column(out, rows.headers.contents, places)


def _sizes(rows: ArrowRows, header_sizes: Int64s) -> Int64s:
    """Bytes of each row's record without its length and its offset delta."""
    from tidelog.pipeline.codec import rows_kernel as kernel

    sizes = np.full(rows.count, 2, np.int64)  # attributes and time delta
    for name, column in (("key", rows.key), ("value", rows.value)):
        if column is None:
            sizes += 1
        else:
            _add_sizes(column, sizes, name)
    if rows.headers is None:
        sizes += 1
    else:
        kernel.add_header_sizes(rows.headers.offsets, header_sizes, sizes)
    return sizes


def _header_sizes(rows: ArrowRows) -> Int64s:
    if rows.headers is None:
        return np.empty(0, np.int64)
    sizes = np.zeros(int(rows.headers.offsets[-1]), np.int64)
    _add_sizes(rows.headers.names, sizes, "headers.key")
    _add_sizes(rows.headers.contents, sizes, "headers.value")
    return sizes


def _add_sizes(column: BinaryColumn, sizes: Int64s, name: str) -> None:
    from tidelog.pipeline.codec import rows_kernel as kernel

    broken = kernel.add_sizes(column, sizes)
    if broken >= 0:
        raise ValueError(f"column {name!r} is broken at row {broken}: its offsets leave its data")


def _spread(partitions: Int64s, partition_count: int, now_ms: int) -> None:
    """Give each batch of rows that may go anywhere a partition: one after the other, from one that the time chooses."""
    anywhere = partitions == partition_count
    count = int(np.count_nonzero(anywhere))
    if count:
        # Multiplied by the golden ratio, times that differ by a fixed interval do not all choose the same partition.
        first = (now_ms * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 33
        partitions[anywhere] = (first + np.arange(count)) % partition_count


def _finished(data: memoryview, record_count: int, codec: Codec, now_ms: int) -> memoryview:
    """A batch whose records are written, with its header; compressed, where that makes it smaller."""
    header = new_header(
        attributes=0,
        last_offset_delta=record_count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        record_count=record_count,
    )
    if codec is not Codec.NONE:
        payload = compress(codec, data[HEADER_SIZE:])
        if len(payload) < len(data) - HEADER_SIZE:
            return memoryview(write_batch(header._replace(attributes=int(codec)), payload))
    _HEADER.pack_into(data, 0, *header._replace(length=len(data) - LENGTH_OVERHEAD, magic=MAGIC))
    _UINT32.pack_into(data, _CRC_AT, crc32c(data[_CHECKED_AT:]))
    return data

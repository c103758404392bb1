"""Arrow columns of the records that the kernel has listed, each part copied once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.pipeline.codec import records_kernel as kernel
from tidelog.pipeline.codec.columns import Wanted, arrow_schema
from tidelog.pipeline.codec.records_kernel import Bytes, Int64s


class ColumnBuilder:
    """Makes Arrow batches of one partition."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._schema = arrow_schema(wanted.columns)
        self._constants: dict[str, pa.Array] = {}

    def arrow_batch(self, data: Bytes, records: Int64s) -> pa.RecordBatch:
        """The wanted columns of all listed records."""
        arrays = [self._column(name, data, records) for name in self._wanted.columns]
        if not arrays:
            nothing = pa.StructArray.from_buffers(pa.struct([]), records.shape[1], [None], children=[])
            return pa.RecordBatch.from_struct_array(nothing)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, data: Bytes, records: Int64s) -> pa.Array:
        type_ = self._schema.field(name).type
        match name:
            case "key":
                return _binary(data, records[kernel.KEY_START], records[kernel.KEY_LENGTH])
            case "value":
                return _binary(data, records[kernel.VALUE_START], records[kernel.VALUE_LENGTH])
            case "headers":
                return _headers(type_, data, records[kernel.HEADERS_START], records[kernel.HEADER_COUNT])
            case "offset":
                return _fixed(type_, records[kernel.OFFSET].copy())
            case "timestamp":
                return _fixed(type_, records[kernel.TIMESTAMP].copy())
            case "timestampType":
                return _fixed(type_, records[kernel.TIMESTAMP_TYPE].astype(np.int32))
            case _:
                return self._constant(name, records.shape[1])

    def _constant(self, name: str, row_count: int) -> pa.Array:
        """A column that is the same in every row; made once, and taken pieces of."""
        known = self._constants.get(name)
        if known is None or len(known) < row_count:
            value = self._wanted.topic if name == "topic" else self._wanted.partition
            known = pa.repeat(pa.scalar(value, self._schema.field(name).type), row_count)
            self._constants[name] = known
        return known.slice(0, row_count)


def _binary(data: Bytes, starts: Int64s, lengths: Int64s) -> pa.Array:
    count = starts.size
    # Arrow's pool keeps freed memory, where a fresh page of the system costs as much as filling it.
    memory = pa.allocate_buffer(int(np.maximum(lengths, 0).sum()))
    offsets = np.zeros(count + 1, np.int32)
    validity = np.zeros((count + 7) // 8, np.uint8)
    kernel.copy_listed(data, starts, lengths, np.frombuffer(memory, np.uint8), offsets, validity)
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(validity), pa.py_buffer(offsets), memory])


def _fixed(type_: pa.DataType, numbers: npt.NDArray[np.generic]) -> pa.Array:
    return pa.Array.from_buffers(type_, numbers.size, [None, pa.py_buffer(numbers)])


def _headers(type_: pa.DataType, data: Bytes, starts: Int64s, counts: Int64s) -> pa.Array:
    """Null for a record without headers, as in the official source."""
    offsets = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    listed = np.empty((kernel.HEADER_HEIGHT, int(offsets[-1])), np.int64)
    kernel.index_headers(data, starts, counts, listed)
    names = _text(_binary(data, listed[kernel.NAME_START], listed[kernel.NAME_LENGTH]))
    contents = _binary(data, listed[kernel.CONTENT_START], listed[kernel.CONTENT_LENGTH])
    structs = pa.StructArray.from_buffers(type_.value_type, len(names), [None], children=[names, contents])
    validity = np.packbits(counts > 0, bitorder="little")
    return pa.ListArray.from_buffers(
        type_, counts.size, [pa.py_buffer(validity), pa.py_buffer(offsets)], children=[structs]
    )


def _text(names: pa.Array) -> pa.Array:
    """Header names as text. What is no UTF-8 becomes replacement characters, as for every consumer in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())

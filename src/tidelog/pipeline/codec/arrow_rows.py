"""The columns of an Arrow batch as the encoder's kernels take them: numpy views on their buffers, of types that the sink accepts."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.pipeline.codec.rows_kernel import BinaryColumn, Int64s

_NO_BYTES: Final = np.frombuffer(b"", np.uint8)
_HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


class HeaderColumn(NamedTuple):
    """Headers of all rows, those of row `i` from `offsets[i]` up to `offsets[i + 1]`."""

    offsets: Int64s
    names: BinaryColumn
    contents: BinaryColumn


class ArrowRows:
    """What a batch has to say of its records. Raises ValueError for a column that is missing, or of a type that is not accepted."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.count = batch.num_rows
        if self._column("value") is None and "value" not in batch.schema.names:
            raise ValueError(f"there is no column 'value' among {', '.join(batch.schema.names) or 'none'}")
        self.key = _binary(self._column("key"), "key")
        self.value = _binary(self._column("value"), "value")
        self.headers = _headers(self._column("headers"))

    def partitions(self, partition_count: int) -> Int64s:
        """The partition that each row names, or -1. Raises ValueError for one that the topic does not have."""
        column = self._column("partition")
        if column is None:
            return np.full(self.count, -1, np.int64)
        if not pa.types.is_int32(column.type):
            raise ValueError(f"column 'partition' is of type {column.type}, where int is accepted")
        named = column.drop_null().to_numpy(zero_copy_only=False)
        wrong = named[(named < 0) | (named >= partition_count)]
        if wrong.size:
            raise ValueError(f"column 'partition' names {wrong[0]}, where the topic has 0 to {partition_count - 1}")
        partitions: Int64s = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return partitions

    def _column(self, name: str) -> pa.Array | None:
        """A column, or None where it is not there or has the type of nothing but nulls."""
        if name not in self._batch.schema.names:
            return None
        column = self._batch.column(name)
        return None if pa.types.is_null(column.type) else column


def _binary(array: pa.Array | None, name: str) -> BinaryColumn | None:
    if array is None:
        return None
    plain = _plain(array, name)
    validity, offsets, data = plain.buffers()
    is_large = pa.types.is_large_binary(plain.type) or pa.types.is_large_string(plain.type)
    return BinaryColumn(
        _offsets(offsets, np.dtype(np.int64 if is_large else np.int32), plain.offset, len(plain) + 1),
        _bytes(data),
        _bytes(validity) if plain.null_count else _NO_BYTES,
        plain.offset,
    )


def _plain(array: pa.Array, name: str) -> pa.Array:
    """The same as a column of offsets and bytes."""
    types, type_ = pa.types, array.type
    if types.is_dictionary(type_):
        return _plain(array.dictionary_decode(), name)
    if types.is_binary(type_) or types.is_string(type_) or types.is_large_binary(type_) or types.is_large_string(type_):
        return array
    if types.is_binary_view(type_) or types.is_string_view(type_):
        return array.cast(pa.large_binary())
    raise ValueError(f"column {name!r} is of type {type_}, where binary or string is accepted")


def _bytes(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return _NO_BYTES if buffer is None else np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)


def _offsets(buffer: pa.Buffer | None, dtype: np.dtype[np.signedinteger], start: int, count: int) -> Int64s:
    """Offsets as the kernels take them; Arrow may leave them out where there is no row."""
    if buffer is None or not buffer.size:
        return np.zeros(count, np.int64)
    return np.frombuffer(buffer, dtype, count, start * dtype.itemsize).astype(np.int64)


def _headers(column: pa.Array | None) -> HeaderColumn | None:
    if column is None:
        return None
    type_ = column.type
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    if not is_list or not pa.types.is_struct(type_.value_type) or type_.value_type.num_fields != 2:
        raise ValueError(f"column 'headers' is of type {type_}, where {_HEADERS_TYPE} is accepted")
    # Flattened, headers that hide under a null row are gone, and offsets begin with 0.
    structs = column.flatten()
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    names, contents = structs.flatten()
    if names.null_count:
        raise ValueError("column 'headers' holds a header without a key")
    flat_names, flat_contents = _binary(names, "headers.key"), _binary(contents, "headers.value")
    if flat_names is None or flat_contents is None:
        raise ValueError(f"column 'headers' is of type {type_}, where {_HEADERS_TYPE} is accepted")
    return HeaderColumn(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), flat_names, flat_contents)

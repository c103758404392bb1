"""Found batches as Arrow batches of the columns that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.pipeline.codec.records_kernel import Int64s
from tidelog.pipeline.segments import kernel
from tidelog.pipeline.segments.columns import TYPES
from tidelog.pipeline.segments.planning import SegmentRange
from tidelog.pipeline.segments.walking import Batches, Found, NoBatch, walk_range
from tidelog.records.batch import CODEC_MASK, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from tidelog.records.compression import Codec

_ROWS_PER_ARROW_BATCH: Final = 20_000
_ARROW: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_CODECS: Final = [*(codec.name.lower() for codec in Codec), "unknown", "unknown", "unknown"]
_CONTROL_NAMES: Final = {
    kernel.EMPTY_CONTROL: "EMPTY",
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_MILLISECONDS_MAX: Final = 253_402_300_799_999  # the last of the year 9999, which is as far as Spark shows

Column: TypeAlias = Callable[[Batches], pa.Array]

_NUMBERS: Final = {
    "position": kernel.POSITION,
    "size": kernel.SIZE,
    "base_offset": kernel.BASE_OFFSET,
    "last_offset": kernel.LAST_OFFSET,
    "leader_epoch": kernel.LEADER_EPOCH,
    "crc": kernel.CRC,
    "digest": kernel.DIGEST,
    "record_count": kernel.RECORD_COUNT,
    "producer_id": kernel.PRODUCER_ID,
    "producer_epoch": kernel.PRODUCER_EPOCH,
    "base_sequence": kernel.BASE_SEQUENCE,
}


def read_ranges(ranges: Iterable[SegmentRange], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """All batches of some ranges."""
    waiting: list[pa.RecordBatch] = []
    row_count = 0
    for wanted in ranges:
        for found in walk_range(wanted):
            waiting.append(as_arrow(wanted, found, columns))
            row_count += waiting[-1].num_rows
            if row_count >= _ROWS_PER_ARROW_BATCH:
                yield from _joined(waiting)
                waiting, row_count = [], 0
    yield from _joined(waiting)


def as_arrow(wanted: SegmentRange, found: Found, columns: Sequence[str]) -> pa.RecordBatch:
    """What was found in a range, as rows."""
    count = len(found.rows) if isinstance(found, Batches) else 1
    arrays = [_column(name, wanted, found, count) for name in columns]
    schema = pa.schema([pa.field(name, _ARROW[TYPES[name]]) for name in columns])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _joined(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One of many small ones: each costs Spark about the same."""
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _column(name: str, wanted: SegmentRange, found: Found, count: int) -> pa.Array:
    place = _place(wanted)
    kind = _ARROW[TYPES[name]]
    if name in place:
        return pa.repeat(pa.scalar(place[name], kind), count)
    if isinstance(found, NoBatch):
        told = {"position": found.position, "size": found.size, "reason": found.reason}
        return pa.array([told.get(name)], kind)
    if name in _NUMBERS:
        return pa.array(found.rows[:, _NUMBERS[name]]).cast(kind)
    return _DERIVED[name](found).cast(kind)


def _place(wanted: SegmentRange) -> dict[str, str | int | None]:
    return {
        "replica": wanted.replica,
        "broker": wanted.broker,
        "directory": wanted.directory,
        "topic": wanted.topic,
        "partition": wanted.partition,
        "segment": wanted.segment.name,
        "segment_base_offset": wanted.segment.base_offset,
    }


def _flags(rows: Int64s, bit: int) -> pa.Array:
    return pa.array((rows[:, kernel.ATTRIBUTES] & bit) != 0)


def _times(milliseconds: Int64s) -> pa.Array:
    is_none: npt.NDArray[np.bool_] = (milliseconds < 0) | (milliseconds > _MILLISECONDS_MAX)
    return pa.array(np.where(is_none, 0, milliseconds) * 1000, pa.timestamp("us"), mask=is_none).cast(
        _ARROW["timestamp"]
    )


def _control_types(rows: Int64s) -> pa.Array:
    types = rows[:, kernel.CONTROL_TYPE]
    if (types == kernel.NO_CONTROL).all():
        return pa.nulls(len(types), pa.string())
    return pa.array(
        [None if each == kernel.NO_CONTROL else _CONTROL_NAMES.get(each, "UNKNOWN") for each in types.tolist()],
        pa.string(),
    )


_DERIVED: Final[dict[str, Column]] = {
    "crc_ok": lambda found: pa.array(found.crc_ok),
    "is_transactional": lambda found: _flags(found.rows, TRANSACTIONAL_BIT),
    "has_delete_horizon": lambda found: _flags(found.rows, DELETE_HORIZON_BIT),
    "control_type": lambda found: _control_types(found.rows),
    "base_timestamp": lambda found: _times(found.rows[:, kernel.BASE_TIMESTAMP]),
    "max_timestamp": lambda found: _times(found.rows[:, kernel.MAX_TIMESTAMP]),
    "codec": lambda found: pa.array(_CODECS).take(pa.array(found.rows[:, kernel.ATTRIBUTES] & CODEC_MASK)),
    "reason": lambda found: pa.nulls(len(found.rows), pa.string()),
}

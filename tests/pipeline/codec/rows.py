"""Rows of all columns, and the shortest ways to get some out of bytes or bytes out of some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from tidelog.model import TimestampType
from tidelog.pipeline.codec.decoding import COLUMNS, Decoder, Wanted
from tidelog.pipeline.codec.encoding import EncodedBatch, encode
from tidelog.records import RecordHeader
from tidelog.runtime.disk import Buffer

TOPIC = "orders"
PARTITION = 3
END_OFFSET = 1 << 62
NOW_MS = 1_700_000_000_000
MILLISECONDS_MAX = ((1 << 63) - 1) // 1000


class Row(NamedTuple):
    """A record as a row of all columns, with its time in microseconds."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[RecordHeader, ...]


def row_of(
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[RecordHeader, ...] = (),
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> Row:
    """The row that a record should become."""
    wrapped = (timestamp_ms + (1 << 63)) % (1 << 64) - (1 << 63)  # Java adds times as machine words
    microseconds = min(max(wrapped, -MILLISECONDS_MAX), MILLISECONDS_MAX) * 1000
    return Row(key, value, TOPIC, PARTITION, offset, microseconds, int(timestamp_type), headers)


def wanted(
    *,
    columns: tuple[str, ...] = COLUMNS,
    from_offset: int = 0,
    to_offset: int = END_OFFSET,
    skips_aborted: bool = True,
) -> Wanted:
    """All that there is, unless something else is said."""
    return Wanted(
        columns=columns,
        topic=TOPIC,
        partition=PARTITION,
        from_offset=from_offset,
        to_offset=to_offset,
        skips_aborted=skips_aborted,
    )


def decode(fetched: Buffer, what: Wanted | None = None, *, aborted: Sequence[tuple[int, int]] = ()) -> list[Row]:
    """The rows of one fetch answer."""
    return rows_in(Decoder(what or wanted()).decode(fetched, aborted).batches)


def rows_in(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of Arrow batches with all columns, which must be sound."""
    rows: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        columns = [batch.column(name) for name in COLUMNS]
        columns[5] = columns[5].cast(pa.int64())
        headers = [
            tuple((header["key"], header["value"]) for header in listed or ()) for listed in columns.pop().to_pylist()
        ]
        lists = [column.to_pylist() for column in columns]
        rows += [Row(*fields) for fields in zip(*lists, headers, strict=True)]
    return rows


def encoded(
    batch: pa.RecordBatch, *, partition_count: int = 1, compression: str = "none", batch_bytes_max: int = 1 << 20
) -> list[EncodedBatch]:
    """The record batches of one Arrow batch."""
    return encode(
        batch,
        partition_count=partition_count,
        now_ms=NOW_MS,
        compression=compression,
        batch_bytes_max=batch_bytes_max,
    )

"""Arrow batches as Spark hands them to a sink."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.records.batches import Row

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def arrow_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows with keys, values and headers; their times are not for the sink."""
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for _, key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, _, value, _ in rows], pa.binary()),
            "headers": headers_array([headers for _, _, _, headers in rows]),
        }
    )


def headers_array(listed: Sequence[Sequence[tuple[str, bytes | None]]]) -> pa.Array:
    """The headers of rows; Spark has null where there are none."""
    return pa.array([[{"key": name, "value": value} for name, value in headers] or None for headers in listed], HEADERS)

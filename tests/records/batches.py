"""Small batches for tests, and a strategy that draws any."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tidelog.records import Codec, RecordBatchBuilder

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

INT64_MAX = (1 << 63) - 1

contents = st.none() | st.binary(max_size=40) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
row_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
timestamps = st.integers(0, 4_000_000_000_000) | st.sampled_from([0, -1, INT64_MAX // 2])
rows = st.lists(st.tuples(timestamps, contents, contents, row_headers), min_size=1, max_size=12)
codecs = st.sampled_from(Codec)


def batch_of(rows: Sequence[Row], *, codec: Codec = Codec.NONE) -> bytearray:
    """A batch of no producer with these rows."""
    builder = RecordBatchBuilder(codec=codec)
    for timestamp_ms, key, value, headers in rows:
        builder.append(timestamp_ms=timestamp_ms, key=key, value=value, headers=headers)
    return builder.build()


def simple_batch(*, keys: Sequence[bytes | None] = (b"a", b"b"), timestamp_ms: int = 1_000) -> bytearray:
    """One record per key, all at one time."""
    return batch_of([(timestamp_ms, key, b"v", ()) for key in keys])

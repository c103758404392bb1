"""Fetched bytes to Arrow: what a consumer would hand out of a partition, as columns.

Control batches, records of aborted transactions and records outside of the wanted offsets are left out, and the next offset goes past them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidelog.pipeline.codec.columns import COLUMNS, Wanted, arrow_schema

if TYPE_CHECKING:
    from tidelog.pipeline.codec.fetched_batches import FetchedBatches
    from tidelog.pipeline.codec.payloads import Run
    from tidelog.pipeline.codec.records_kernel import Int64s

__all__ = ["COLUMNS", "Decoded", "Decoder", "Wanted", "arrow_schema"]

_ARROW_BATCH_ROWS: Final = 1 << 15
_ARROW_BATCH_BYTES: Final = 4 << 20  # of records; one that is larger makes an Arrow batch of its own
_FETCH_BYTES_MAX: Final = (1 << 31) - 1  # what a column of bytes can hold
_RECORD_BATCH_BYTES_MAX: Final = 256 << 20
_EXPANDED_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a fetch held for the reader."""

    batches: list[pa.RecordBatch]
    next_offset: int
    """Where to fetch on; never more than the wanted end, and all is read when it is reached."""


class Decoder:
    """Decodes one partition, fetch after fetch. Records are handed out once, also when a fetch brings some of them again.

    A compressed batch may expand to `record_batch_bytes_max`. Of a fetch that expands to more than 64 MiB the rest is left out: give it, or
    what is fetched from the next offset on, to the decoder again.
    """

    def __init__(self, wanted: Wanted, *, record_batch_bytes_max: int = _RECORD_BATCH_BYTES_MAX) -> None:
        # With these come the compiler and the kernels, which only those need who decode.
        from tidelog.pipeline.codec.column_building import ColumnBuilder

        self.next_offset = wanted.from_offset
        """Where to fetch on."""
        self._wanted = wanted
        self._record_batch_bytes_max = min(record_batch_bytes_max, _FETCH_BYTES_MAX // 2)
        self._builder = ColumnBuilder(wanted)

    def decode(self, fetched: bytes | bytearray | memoryview, aborted: Sequence[tuple[int, int]] = ()) -> Decoded:
        """The records of one fetch answer; `aborted` are the producer ids and first offsets that came with it.

        Raises CorruptRecords, and stays where it is. The bytes may not change meanwhile; nothing of the result refers to them.
        """
        from tidelog.pipeline.codec.fetched_batches import FetchedBatches
        from tidelog.pipeline.codec.payloads import runs_of

        view = memoryview(fetched).cast("B").toreadonly()
        if self.next_offset >= self._wanted.to_offset or not len(view):
            return Decoded([], self.next_offset)
        if len(view) > _FETCH_BYTES_MAX:
            raise ValueError(f"{len(view)} bytes cannot be of one fetch")
        found = FetchedBatches(view, self._wanted)
        readable, next_offset = found.readable(self.next_offset, aborted)
        arrow_batches: list[pa.RecordBatch] = []
        expanded_bytes = 0
        for run in runs_of(found, readable, self._record_batch_bytes_max):
            arrow_batches.extend(self._arrow_batches(found, run))
            expanded_bytes += run.expanded_bytes
            if expanded_bytes > _EXPANDED_BYTES_MAX:
                next_offset = min(found.next_offset(run.batches[-1]), self._wanted.to_offset)
                break
        self.next_offset = next_offset
        return Decoded(arrow_batches, next_offset)

    def _arrow_batches(self, found: FetchedBatches, run: Run) -> Iterator[pa.RecordBatch]:
        from tidelog.pipeline.codec import records_kernel as kernel

        offsets = (self.next_offset, self._wanted.to_offset)
        records = _record_list()
        progress = np.zeros(kernel.PROGRESS, np.int64)
        while progress[kernel.BATCHES_DONE] < len(run.batches):
            fault = kernel.index_records(run.data, run.batches, offsets, _ARROW_BATCH_BYTES, records, progress)
            if fault != kernel.FINE:
                batch = run.batches[progress[kernel.BATCHES_DONE]]
                at = progress[kernel.POSITION] - batch[kernel.START]
                raise found.corrupt(batch, f"the record at {at} of its records {kernel.FAULTS[fault]}")
            if progress[kernel.LISTED]:
                yield self._builder.arrow_batch(run.data, records[:, : progress[kernel.LISTED]])


def _record_list() -> Int64s:
    """Room for the kernel's list of records, of two megabytes: one per thread, for a task may have hundreds of decoders."""
    from tidelog.pipeline.codec.records_kernel import RECORD_HEIGHT

    shape = (RECORD_HEIGHT, _ARROW_BATCH_ROWS)
    known: Int64s | None = getattr(_of_thread, "records", None)
    if known is None or known.shape != shape:
        known = _of_thread.records = np.empty(shape, np.int64)
    return known


_of_thread: Final = threading.local()

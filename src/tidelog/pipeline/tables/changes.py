"""Upserts: what is left of the changes of a micro-batch when only the last one of every key counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.errors import TableFailed
from tidelog.pipeline.tables.files import DataFile, read_rows
from tidelog.pipeline.tables.options import TableSettings, Upsert

if TYPE_CHECKING:
    import pyarrow as pa

CHANGES_BYTES_MAX: Final = 1 << 30
"""So much of a micro-batch the driver takes into its memory to find the last change of every key."""

DELETED: Final = "tidelog deleted"
"""A column that is no user's."""

_AT: Final = "tidelog at"


@dataclass(frozen=True, slots=True)
class Changes:
    """One row for every key that was changed."""

    last: pa.Table  # columns of the table, and DELETED
    upsert: Upsert

    @property
    def rows(self) -> pa.Table:
        """Those that are to be there."""
        import pyarrow.compute as pc

        return self.last.filter(pc.invert(self.last.column(DELETED))).drop_columns([DELETED])

    @property
    def keys(self) -> pa.Table:
        """All that were changed."""
        return self.last.select(list(self.upsert.key))


def last_changes(files: Iterable[DataFile], settings: TableSettings) -> Changes:
    """Read what tasks have left. Raises BadRows for a row without a key, and TableFailed where it is more than the driver takes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    upsert = settings.upsert
    if upsert is None:
        raise TableFailed(f"the {settings.called} is not written by key")
    table = pa.Table.from_batches(_bounded(files, settings))
    for column in upsert.key:
        if table.column(column).null_count:
            raise BadRows(f"column {column!r} of table.key is null in a row: set such rows aside before the sink")
    # Among rows that compare equal the one that was written last wins.
    ordered = table.sort_by([(name, "ascending") for name in upsert.order])
    numbered = ordered.append_column(_AT, pa.array(range(len(ordered)), pa.int64()))
    at = numbered.group_by(list(upsert.key)).aggregate([(_AT, "max")]).column(f"{_AT}_max")
    last = ordered.take(at.combine_chunks().sort())
    if upsert.delete is None:
        gone = pa.array([False] * len(last), pa.bool_())
    else:
        gone = pc.fill_null(last.column(upsert.delete), False)
        last = last.drop_columns([upsert.delete])
    return Changes(last.append_column(DELETED, gone), upsert)


def _bounded(files: Iterable[DataFile], settings: TableSettings) -> list[pa.RecordBatch]:
    batches = []
    size_bytes = 0
    for batch in read_rows(files):
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > CHANGES_BYTES_MAX:
            raise TableFailed(
                f"a micro-batch with more than {CHANGES_BYTES_MAX >> 20} MiB of changes is too much for the driver, which "
                f"brings them to the {settings.called}: bound it at the source, with maxOffsetsPerTrigger"
            )
    return batches

"""The writers that Spark calls: their names and calls; what they mean is in the commit modes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.columns import check_columns
from tidelog.pipeline.sink.identity import current_task
from tidelog.pipeline.sink.modes import Mode, mode_of
from tidelog.pipeline.sink.options import SinkSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """For `df.writeStream`. In the output mode complete (`overwrite`) all rows of every micro-batch are appended, as by Spark's own sink.

    Raises OptionRefused or BadRows.
    """
    del overwrite
    settings = SinkSettings.of_stream(options)
    check_columns(schema, settings)
    return TidelogStreamWriter(mode_of(settings))


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """For `df.write`, in the mode append. Raises OptionRefused or BadRows."""
    if overwrite:
        raise OptionRefused("mode", "a topic cannot be overwritten: write with .mode('append')")
    settings = SinkSettings.of_batch(options)
    check_columns(schema, settings)
    return TidelogWriter(mode_of(settings))


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return self._mode.task_write(iterator, current_task(is_streaming=True))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, when all tasks are done."""
        self._mode.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, when one has failed for good, or `commit` has."""
        self._mode.abort(messages, batchId)


class TidelogWriter(DataSourceArrowWriter):
    """Writes the rows of one batch job."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return self._mode.task_write(iterator, current_task(is_streaming=False))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, when all tasks are done."""
        self._mode.commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, when one has failed for good, or `commit` has."""
        self._mode.abort(messages, None)

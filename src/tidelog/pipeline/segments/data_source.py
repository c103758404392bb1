"""The format "tidelog-segments" of Spark: the segment files of brokers, one row per record batch. Light: every planner imports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tidelog.pipeline.segments.columns import as_ddl, columns_of
from tidelog.pipeline.segments.options import SegmentsOptions, read_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class SegmentsDataSource(DataSource):
    """`spark.read.format("tidelog-segments")`."""

    @classmethod
    def name(cls) -> str:
        """What users write."""
        return "tidelog-segments"

    def schema(self) -> str:
        """All columns, for a read for which the user gave no schema."""
        read_options(self.options)  # a wrong option is refused before anything runs
        return as_ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return SegmentsReader(read_options(self.options), columns_of(schema))


class SegmentsReader(DataSourceReader):
    """Made in a planner of the driver, where it lists files, and pickled from there to the tasks, where it reads them."""

    def __init__(self, options: SegmentsOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        from tidelog.pipeline.segments.directories import check_one_log_each, data_directories, partitions_in
        from tidelog.pipeline.segments.planning import plan
        from tidelog.pipeline.source.batch_reader import core_count

        options = self._options
        found = [
            files
            for directory in data_directories(options.directories)
            for files in partitions_in(directory, options.topics)
            if options.partitions is None or files.topic_partition.index in options.partitions
        ]
        check_one_log_each(found)
        return [
            InputPartition(task) for task in plan(found, core_count=core_count(), task_bytes_max=options.task_bytes_max)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task; Spark makes up a partition with None where there are no tasks."""
        from tidelog.pipeline.segments.rows import read_ranges

        if partition.value is None:
            return iter(())
        return read_ranges(partition.value, self._columns)

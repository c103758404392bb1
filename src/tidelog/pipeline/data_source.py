"""The format "tidelog" of Spark: topics as the source and the sink of queries, batch and streaming.

Spark makes this object, and the parts it returns, in several processes; each imports only the half that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from tidelog.pipeline.source.columns import as_ddl, columns_asked_for, columns_of
from tidelog.pipeline.source.options import SourceOptions, asked_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class TidelogDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `.format("tidelog")`."""

    @classmethod
    def name(cls) -> str:
        """What users write."""
        return "tidelog"

    def schema(self) -> str:
        """The columns of a read for which the user gave no schema."""
        names, includes_headers = asked_columns(self.options)
        return as_ddl(columns_asked_for(names, includes_headers=includes_headers))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from tidelog.pipeline.source.batch_reader import TidelogReader

        return TidelogReader(SourceOptions.of_batch(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        from tidelog.pipeline.source.stream_reader import TidelogStreamReader

        return TidelogStreamReader(SourceOptions.of_stream(self.options), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """For `df.write`."""
        from tidelog.pipeline.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """For `df.writeStream`."""
        from tidelog.pipeline.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)

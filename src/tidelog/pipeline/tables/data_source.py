"""The format "tidelog-table" of Spark: a sink for tables. Other people's readers read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from tidelog.pipeline.options import OptionRefused

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


class TidelogTableDataSource(DataSource):
    """`write` and `writeStream` with `.format("tidelog-table")`, and sinks of declared pipelines."""

    @classmethod
    def name(cls) -> str:
        """What users write."""
        return "tidelog-table"

    def schema(self) -> str:
        """Asked for by whoever reads. Raises OptionRefused."""
        raise OptionRefused(
            "format", "tidelog-table only writes: read the table with Spark's parquet, delta-rs, pyiceberg or DuckDB"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """For `df.write`."""
        from tidelog.pipeline.tables.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """For `df.writeStream`."""
        from tidelog.pipeline.tables.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)

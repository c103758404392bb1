"""The writers that Spark calls for tables: the same as for topics, with another mode below them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.writer import TidelogStreamWriter, TidelogWriter
from tidelog.pipeline.tables.committing import TableCommit
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TidelogStreamWriter:
    """For `df.writeStream`. In the output mode complete (`overwrite`) all rows of every micro-batch are written.

    The table is made here if it is not there, which is idempotent. Raises OptionRefused, or TableFailed where the table has another schema.
    """
    del overwrite
    settings = TableSettings.of_stream(options)
    return TidelogStreamWriter(TableCommit.prepared(settings, arrow_schema(schema, settings)))


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TidelogWriter:
    """For `df.write`, in the mode append. Raises OptionRefused or TableFailed."""
    if overwrite:
        raise OptionRefused("mode", "tidelog-table does not overwrite tables: write with .mode('append')")
    settings = TableSettings.of_batch(options)
    return TidelogWriter(TableCommit.prepared(settings, arrow_schema(schema, settings)))

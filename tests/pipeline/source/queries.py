"""Queries of Spark over topics, as users write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.starting import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

END_S = 120


def reader(spark: SparkSession, cluster: TidelogCluster, **options: str) -> DataFrameReader:
    """`spark.read`; `__` stands for `.` in the names of options."""
    return spark.read.format("tidelog").options(**_options(cluster, options))


def stream_reader(spark: SparkSession, cluster: TidelogCluster, **options: str) -> DataStreamReader:
    """`spark.readStream`."""
    return spark.readStream.format("tidelog").options(**_options(cluster, options))


def _options(cluster: TidelogCluster, options: Mapping[str, str]) -> dict[str, str]:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap, **given}


def values(frame: DataFrame) -> list[bytes]:
    """The values of all rows, sorted."""
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def refusal(action: Callable[[], object]) -> str:
    """What Spark says when `action` fails."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


class Seen:
    """The rows that a streaming query has read, micro-batch by micro-batch."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    @property
    def numbers(self) -> list[int]:
        """The values, which are numbers, sorted."""
        return sorted(int(bytes(row.value)) for row in self.rows)

    def read_available(self, frame: DataFrame, checkpoint: str) -> StreamingQuery:
        """Read what is there, and end."""
        query = start_query(self._writer(frame, checkpoint).trigger(availableNow=True))
        try:
            assert query.awaitTermination(END_S), query.lastProgress
        finally:
            query.stop()
        return query

    @contextmanager
    def reading(self, frame: DataFrame, checkpoint: str) -> Iterator[StreamingQuery]:
        """Read whatever comes, to the end of the block."""
        query = start_query(self._writer(frame, checkpoint))
        try:
            yield query
        finally:
            query.stop()

    def _writer(self, frame: DataFrame, checkpoint: str) -> DataStreamWriter:
        def add(rows: DataFrame, _micro_batch_id: int) -> None:
            self.rows += rows.collect()

        return frame.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint)

"""A Spark driver that runs queries into tables, as a process that can be killed: `python -m tests.pipeline.tables.program QUERIES`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tests.pipeline.starting import BRIEF_JAVA, start_query
from tests.pipeline.tables.crashing import CrashTableDataSource
from tidelog.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

COLUMNS: Final = "id BIGINT, country STRING, at TIMESTAMP"
_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.driver.memory": "1g",
    "spark.sql.streaming.pollingDelay": "20ms",
}


def writer_of(spark: SparkSession, source: str, options: Mapping[str, str]) -> DataStreamWriter:
    """A file of rows for every micro-batch, to a table."""
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(source)
    return rows.writeStream.format(CrashTableDataSource.name()).options(**options).trigger(availableNow=True)


def main(text: str) -> None:
    """Run all queries, until killed or done."""
    os.setsid()
    queries = json.loads(text)
    spark = spark_session("tidelog table crash", settings=_SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(CrashTableDataSource)
    started = [start_query(writer_of(spark, query["source"], query["options"])) for query in queries]
    for query in started:
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])

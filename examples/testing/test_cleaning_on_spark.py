"""The fifth: a pipeline on Spark against a cluster of the test. Needs `pip install 'tidelog[spark]'`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelog.pipeline.session import spark_session

if TYPE_CHECKING:
    from tidelog.testing import Cluster


def cleaned(orders: DataFrame) -> DataFrame:
    """The code under test: orders with a number that makes sense."""
    return orders.selectExpr("key", "CAST(value AS STRING) AS value").where("TRY_CAST(value AS INT) > 0")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: it is what takes time."""
    session = spark_session("tests", master="local[2]")
    yield session
    session.stop()


def test_an_order_is_written_once_also_when_the_query_is_started_again(
    kafka: Cluster, kafka_topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    out = kafka.create_topic(f"{kafka_topic}-cleaned")
    kafka.produce(kafka_topic, ["3", "none", "4"], key="ada")
    where = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    orders = (
        spark.readStream.format("tidelog").options(**where, subscribe=kafka_topic, startingOffsets="earliest").load()
    )
    for _ in range(2):
        writer = cleaned(orders).writeStream.format("tidelog").options(**where, topic=out)
        writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert [record.value for record in kafka.records(out)] == [b"3", b"4"]

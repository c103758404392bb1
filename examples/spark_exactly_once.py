"""Topic to topic on Spark, exactly once: a driver that dies after its commit starts again, and nothing is doubled.

Spark writes down that a micro-batch is done after the sink has committed it. A driver that dies in between repeats the micro-batch, which
is where Spark's own Kafka sink writes every record again. Here the death is played by removing what Spark wrote down.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from tidelog.client import Admin, ClientConfig, NewTopic, Producer, ProducerConfig
from tidelog.pipeline.session import spark_session
from tidelog.runtime.real import real_runtime

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
RUN = uuid4().hex[:8]
READINGS, WARNINGS = f"readings-{RUN}", f"warnings-{RUN}"
COUNT = 1000


async def send_readings() -> None:
    """What the query reads."""
    servers, runtime = {"bootstrap.servers": BOOTSTRAP}, real_runtime()
    async with Admin.connect(ClientConfig.from_properties(servers), runtime) as admin:
        await admin.create_topics([NewTopic(name=name, partition_count=2) for name in (READINGS, WARNINGS)])
    async with Producer.connect(ProducerConfig.from_properties(servers), runtime) as producer:
        for number in range(COUNT):
            await producer.send(READINGS, str(number % 40).encode(), key=f"sensor-{number}".encode())


def copy_hot_readings(spark: SparkSession, checkpoint: Path) -> None:
    """Run the query over all that is there, then end."""
    readings = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", BOOTSTRAP)
    rows = readings.option("subscribe", READINGS).option("startingOffsets", "earliest").load()
    hot = rows.where("CAST(CAST(value AS STRING) AS INT) >= 30").select("key", "value")
    writer = hot.writeStream.format("tidelog").option("kafka.bootstrap.servers", BOOTSTRAP).option("topic", WARNINGS)
    query = (
        writer.option("checkpointLocation", str(checkpoint)).queryName(f"hot-{RUN}").trigger(availableNow=True).start()
    )
    query.awaitTermination()


def warnings_seen(spark: SparkSession) -> tuple[int, int]:
    """How many records a reader of committed records gets, and how many different ones."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", BOOTSTRAP).option("subscribe", WARNINGS)
    row = reader.load().selectExpr("count(*) AS records", "count(DISTINCT key) AS sensors").first()
    return (row["records"], row["sensors"]) if row is not None else (0, 0)


def main() -> None:
    """Run the query, let its driver "die", run it again, and count."""
    asyncio.run(send_readings())
    spark = spark_session("hot readings")
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        copy_hot_readings(spark, checkpoint)
        first = warnings_seen(spark)
        for file in (checkpoint / "commits").iterdir():  # as if the driver had died before it wrote this
            file.unlink()
        copy_hot_readings(spark, checkpoint)
        again = warnings_seen(spark)
    spark.stop()
    print(f"{first[0]} warnings of {first[1]} sensors; after the micro-batch was repeated: {again[0]} of {again[1]}")
    if first != again or first != (COUNT // 4, COUNT // 4):
        raise SystemExit("not exactly once")


if __name__ == "__main__":
    main()

"""Clicks in, sessions out: a session is the clicks of a user with less than half an hour between them.

What is open is state, kept in the checkpoint. A session is written once, when the watermark has passed its end: no click that could still
belong to it is waited for any more.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, min_by, session_window, struct, to_json

spark: SparkSession  # whoever runs the pipeline puts it here

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
LATE = "1 minute"
APART = "30 minutes"

dp.create_sink("sessions", "tidelog", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "sessions"})


@dp.temporary_view
def clicks() -> DataFrame:
    """The topic, a column for each field. The watermark is said here: on a view it would come too early for Spark."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("columns", "value")
        .load()
    )
    click = from_json(col("value").cast("string"), "user STRING, page STRING, at TIMESTAMP")
    return records.select(click.alias("click")).select("click.*").withWatermark("at", LATE)


@dp.append_flow(target="sessions")
def closed_sessions() -> DataFrame:
    """One row for each session that has ended."""
    sessions = (
        spark.readStream.table("clicks")
        .groupBy(col("user"), session_window("at", APART).alias("span"))
        .agg(count("*").alias("clicks"), min_by("page", "at").alias("entered_at"))
    )
    told = struct("user", col("span.start").alias("began"), "clicks", "entered_at")
    return sessions.select(col("user").alias("key"), to_json(told).alias("value"))

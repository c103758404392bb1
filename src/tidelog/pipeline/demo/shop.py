"""The pipeline of the shop, on plain DataFrames: judge every order, enrich the good ones, add them up by event time.

Two queries. `clean` reads the orders, looks each one's product up and writes every order once, cleaned or rejected. `revenue` reads the
cleaned ones, of committed transactions only, and writes a row per window and category when the watermark has passed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from tidelog.pipeline.demo import orders
from tidelog.pipeline.demo.orders import PATIENCE_S, WATERMARK_S, WINDOW_S, Reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT: Final = "tidelog"
TRIGGER: Final = "500 milliseconds"
MICRO_BATCH_SPAN_S: Final = 5
"""At most so much event time in a micro-batch of `clean`: with PATIENCE_S it stays below the watermark's delay, see docs/pipeline.md."""
_UNPARSED: Final = "_unparsed"

_ORDER: Final = StructType(
    [
        StructField("customer", StringType()),
        StructField("sku", StringType()),
        StructField("quantity", IntegerType()),
        StructField("placed_at", TimestampType()),
        StructField("sent_at", TimestampType()),
        StructField(_UNPARSED, StringType()),
    ]
)
_PRODUCT: Final = StructType(
    [
        StructField("sku", StringType()),
        StructField("name", StringType()),
        StructField("category", StringType()),
        StructField("price_cents", LongType()),
    ]
)
_CLEANED: Final = StructType(
    [
        StructField("category", StringType()),
        StructField("total_cents", LongType()),
        StructField("placed_at", TimestampType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Where the shop runs and how it commits."""

    bootstrap: str
    checkpoints: Path
    commit_mode: str
    orders_per_second: int

    @property
    def source_options(self) -> dict[str, str]:
        """What both queries tell their source."""
        return {"kafka.bootstrap.servers": self.bootstrap, "startingOffsets": "earliest"}

    def sink_options(self, name: str) -> dict[str, str]:
        """What a query tells its sink; its name is its identity and its consumer group."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "checkpointLocation": str(self.checkpoints / name),
            "sink.id": name,
            "offsets.group": name,
            "commit.mode": self.commit_mode,
        }


def start_clean(spark: SparkSession, shop: Shop) -> StreamingQuery:
    """Orders in, each of them out once; goes on where its checkpoint ends."""
    # No more than that at a time, also after an outage: see MICRO_BATCH_SPAN_S.
    limit = {"maxOffsetsPerTrigger": str(shop.orders_per_second * MICRO_BATCH_SPAN_S)}
    outcome = judged(_stream(spark, shop, orders.ORDERS, limit), products(spark, shop.source_options))
    return _started(outcome, orders.CLEAN_QUERY, shop)


def start_revenue(spark: SparkSession, shop: Shop) -> StreamingQuery:
    """Cleaned orders in, revenue out; goes on where its checkpoint ends."""
    revenue = revenue_rows(_stream(spark, shop, orders.CLEANED)).withColumn("topic", f.lit(orders.REVENUE))
    return _started(revenue, orders.REVENUE_QUERY, shop)


def _stream(spark: SparkSession, shop: Shop, topic: str, more: Mapping[str, str] | None = None) -> DataFrame:
    reader = spark.readStream.format(FORMAT).options(**shop.source_options, **(more or {}))
    return reader.option("subscribe", topic).option("columns", "key,value").load()


def _started(rows: DataFrame, name: str, shop: Shop) -> StreamingQuery:
    writer = rows.writeStream.format(FORMAT).options(**shop.sink_options(name)).queryName(name)
    return writer.outputMode("append").trigger(processingTime=TRIGGER).start()


def products(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The newest word on every product, from the topic of products, read once."""
    reader = spark.read.format(FORMAT).options(**options).option("columns", "key,value,offset")
    told = reader.option("subscribe", orders.PRODUCTS).load()
    newest = told.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
    table = newest.select(f.from_json(f.col("value").cast("string"), _PRODUCT).alias("product")).select("product.*")
    # As rows in the plan, not as a scan: a static side is read again with every micro-batch.
    return spark.createDataFrame(table.collect(), _PRODUCT)


def judged(ordered: DataFrame, known: DataFrame) -> DataFrame:
    """Every order as one row for the sink: key, value and the topic it belongs to."""
    text = f.col("value").cast("string")
    parsed = f.from_json(text, _ORDER, {"columnNameOfCorruptRecord": _UNPARSED})
    read = ordered.select("key", text.alias("text"), parsed.alias("order"))
    priced = read.join(f.broadcast(known), f.col("order.sku") == f.col("sku"), "left")
    ruled = priced.withColumn("reason", _reason())
    is_clean = f.col("reason").isNull()
    return ruled.select(
        "key",
        f.when(is_clean, _cleaned_json())
        .otherwise(f.to_json(f.struct("reason", "text")))
        .cast("binary")
        .alias("value"),
        f.when(is_clean, orders.CLEANED).otherwise(orders.REJECTED).alias("topic"),
    )


def revenue_rows(cleaned: DataFrame) -> DataFrame:
    """What was sold per window and category, when no order can come into it any more."""
    parsed = f.from_json(f.col("value").cast("string"), _CLEANED)
    sold = cleaned.select(parsed.alias("order")).select("order.*").withWatermark("placed_at", f"{WATERMARK_S} seconds")
    windows = sold.groupBy(f.window("placed_at", f"{WINDOW_S} seconds").alias("window"), "category")
    totals = windows.agg(f.count("*").alias("orders"), f.sum("total_cents").alias("cents"))
    row = f.struct(f.col("window.start").alias("window_start"), "category", "orders", "cents")
    return totals.select(f.col("category").cast("binary").alias("key"), f.to_json(row).cast("binary").alias("value"))


def _reason() -> Column:
    """The first thing that is wrong with an order, or null."""
    order = f.col("order")
    wanted = [order[name].isNull() for name in ("customer", "sku", "quantity", "placed_at", "sent_at")]
    delay_ms = f.unix_millis(order["sent_at"]) - f.unix_millis(order["placed_at"])
    return (
        f.when(order.isNull() | order[_UNPARSED].isNotNull(), Reason.UNREADABLE.value)
        .when(wanted[0] | wanted[1] | wanted[2] | wanted[3] | wanted[4], Reason.INCOMPLETE.value)
        .when(order["quantity"] < 1, Reason.QUANTITY.value)
        .when(f.col("price_cents").isNull(), Reason.UNKNOWN_PRODUCT.value)
        .when(delay_ms > PATIENCE_S * 1000, Reason.LATE.value)
    )


def _cleaned_json() -> Column:
    order = f.col("order")
    return f.to_json(
        f.struct(
            order["customer"].alias("customer"),
            order["sku"].alias("sku"),
            f.col("name").alias("product"),
            "category",
            order["quantity"].alias("quantity"),
            (order["quantity"] * f.col("price_cents")).alias("total_cents"),
            order["placed_at"].alias("placed_at"),
        )
    )

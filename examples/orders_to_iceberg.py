"""Orders from a topic to an Iceberg table, exactly once; what is no order goes to a dead-letter topic, with the reason.

Two queries over one topic: one keeps the rows, the other one the rejects. What becomes of a record depends on the record alone, so each is
in one of the two, once. Starts a broker of its own unless TIDELOG_BOOTSTRAP names one.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tidelog.client import Admin, ClientConfig, NewTopic, Producer, ProducerConfig
from tidelog.pipeline.session import spark_session
from tidelog.pipeline.tables.json_rows import json_rows
from tidelog.runtime.real import real_runtime

RUN = uuid4().hex[:8]
ORDERS, REJECTED = f"orders-{RUN}", f"orders-rejected-{RUN}"
SCHEMA = "id BIGINT NOT NULL, product STRING NOT NULL, amount DECIMAL(10,2), at TIMESTAMP NOT NULL"
COUNT = 500
BROKEN = [b"no JSON", b'{"id": "seven"}', b'{"id": 7, "product": "tea", "amount": 0.001, "at": "2026-01-01T00:00:00Z"}']


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """Where the brokers are."""
    if "TIDELOG_BOOTSTRAP" in os.environ:
        yield os.environ["TIDELOG_BOOTSTRAP"]
        return
    command = [sys.executable, "-m", "tidelog", "up", "--port", "0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            yield next(line.split("=", 1)[1].strip() for line in process.stdout or () if line.startswith("ready "))
        finally:
            process.terminate()


async def send_orders(bootstrap: str) -> None:
    """Good ones, over three days, and broken ones among them."""
    servers, runtime = {"bootstrap.servers": bootstrap}, real_runtime()
    async with Admin.connect(ClientConfig.from_properties(servers), runtime) as admin:
        await admin.create_topics([NewTopic(name=name, partition_count=2) for name in (ORDERS, REJECTED)])
    async with Producer.connect(ProducerConfig.from_properties(servers), runtime) as producer:
        for number in range(COUNT):
            order = {"id": number, "product": "tea", "amount": 2.5, "at": f"2026-01-0{1 + number % 3}T12:00:00Z"}
            await producer.send(ORDERS, json.dumps(order).encode())
        for value in BROKEN:
            await producer.send(ORDERS, value)


def keep_orders(spark: SparkSession, bootstrap: str, home: Path, table: dict[str, str]) -> None:
    """Run both queries over all that is there, then end."""
    brokers = {"kafka.bootstrap.servers": bootstrap}
    reader = spark.readStream.format("tidelog").options(**brokers, subscribe=ORDERS, startingOffsets="earliest")
    orders = json_rows(reader.load(), SCHEMA)
    to_table = orders.rows.writeStream.format("tidelog-table").options(**table, **{"partition.by": "day(at)"})
    to_topic = orders.rejects.writeStream.format("tidelog").options(**brokers, topic=REJECTED)
    for name, writer in (("orders", to_table), ("rejected", to_topic)):
        writer = writer.option("checkpointLocation", str(home / name)).trigger(availableNow=True)
        writer.start().awaitTermination()


def main() -> None:
    """Write, then read with somebody else's reader."""
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory) / "data") as bootstrap:
        asyncio.run(send_orders(bootstrap))
        home = Path(directory)
        catalog = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}
        spark = spark_session("orders to Iceberg")
        table = {"table.format": "iceberg", "table.name": "shop.orders"}
        table |= {f"catalog.{name}": value for name, value in catalog.items()}
        keep_orders(spark, bootstrap, home, table)
        rejects = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        rows = rejects.option("subscribe", REJECTED).option("includeHeaders", "true").load().collect()
        reasons = sorted(bytes(row.headers[0].value).decode() for row in rows)
        spark.stop()
        found = load_catalog("default", **catalog).load_table("shop.orders").scan().to_arrow()
    print(f"{len(found)} orders in the table, {len(reasons)} set aside:")
    print(*reasons, sep="\n")
    if sorted(found["id"].to_pylist()) != list(range(COUNT)) or len(reasons) != len(BROKEN):
        raise SystemExit("not exactly once")


if __name__ == "__main__":
    main()

"""A topic of changes to a Delta table that has the current state: one row for every customer who is there.

The topic says, in the order of its partitions, what became of every key; a value of null deletes. `table.mode=upsert` brings the last change
of each key to the table, in one commit for every micro-batch. Starts a broker of its own unless TIDELOG_BOOTSTRAP names one.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidelog.client import Admin, ClientConfig, NewTopic, Producer, ProducerConfig
from tidelog.pipeline.session import spark_session
from tidelog.runtime.real import real_runtime

CHANGES = f"customers-{uuid4().hex[:8]}"
CUSTOMERS, ROUNDS = 40, 5


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


async def send_changes(bootstrap: str) -> dict[str, str]:
    """Every customer moves some times, and every fourth leaves; who is there in the end, and where."""
    servers, runtime = {"bootstrap.servers": bootstrap}, real_runtime()
    state: dict[str, str] = {}
    async with Admin.connect(ClientConfig.from_properties(servers), runtime) as admin:
        await admin.create_topics([NewTopic(name=CHANGES, partition_count=2)])
    async with Producer.connect(ProducerConfig.from_properties(servers), runtime) as producer:
        for change in range(CUSTOMERS * ROUNDS):
            name, city = f"customer-{change % CUSTOMERS}", f"city-{change}"
            await producer.send(CHANGES, city.encode(), key=name.encode())
            state[name] = city
        for number in range(0, CUSTOMERS, 4):
            await producer.send(CHANGES, None, key=f"customer-{number}".encode())
            del state[f"customer-{number}"]
    return state


def keep_state(spark: SparkSession, bootstrap: str, home: Path) -> None:
    """Run the query over all that is there, some records at a time, then end."""
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    changes = reader.options(subscribe=CHANGES, startingOffsets="earliest", maxOffsetsPerTrigger="90").load()
    rows = changes.selectExpr("string(key) AS name", "string(value) AS city", "offset", "value IS NULL AS gone")
    writer = rows.writeStream.format("tidelog-table").options(
        **{"table.format": "delta", "table.path": str(home / "customers"), "table.mode": "upsert"},
        **{"table.key": "name", "table.order": "offset", "table.delete": "gone"},
    )
    writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Write, then read with delta-rs."""
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory) / "data") as bootstrap:
        state = asyncio.run(send_changes(bootstrap))
        spark = spark_session("changes to current state")
        keep_state(spark, bootstrap, Path(directory))
        spark.stop()
        table = DeltaTable(Path(directory) / "customers")
        rows = table.to_pyarrow_table(columns=["name", "city"]).to_pylist()
        print(f"{len(rows)} customers after {CUSTOMERS * ROUNDS + CUSTOMERS // 4} changes, version {table.version()}")
    if len(rows) != len(state) or {row["name"]: row["city"] for row in rows} != state:
        raise SystemExit("not the current state")


if __name__ == "__main__":
    main()

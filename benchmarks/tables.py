"""Tables: `python -m benchmarks.tables [FORMAT...]`, the format tidelog-table beside Spark's own Parquet sink.

Rows come from Parquet files that are there already, so many per micro-batch; what counts is Spark's own count of how long the micro-batches
took in all. All sides are in one session, warm, and take turns. Spark's sink does not wait for the disk; ours does.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.statistics import Summary, ratio
from tidelog.pipeline.java import NoJava
from tidelog.pipeline.session import SparkMissing, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BAR: Final = 0.8
MASTER: Final = "local[2]"
SPARKS_OWN: Final = "spark parquet"
FORMATS: Final = ("parquet", "delta", "iceberg")
FILES_PER_MICRO_BATCH: Final = 2
QUERY_TIMEOUT_S: Final = 900
SCHEMA: Final = "id BIGINT, country STRING, at TIMESTAMP, amount DOUBLE, note STRING"
_SETTINGS: Final = {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
_numbers: Final = count()


class Bed:
    """A session, and rows that are there already."""

    def __init__(self, session: SparkSession, home: Path, *, rows_each: int, micro_batches: int) -> None:
        self._session = session
        self._home = home
        self.rows = rows_each * micro_batches
        self._micro_batches = micro_batches
        self._source = home / "source"
        made = session.range(0, self.rows, 1, FILES_PER_MICRO_BATCH * micro_batches).selectExpr(
            "id",
            "element_at(array('DE', 'FR', 'IT', 'ES'), int(id % 4) + 1) AS country",
            "timestamp_seconds(1767225600 + id % 86400) AS at",
            "rand(7) AS amount",
            "concat('order number ', id, ' of a customer who wanted it soon and paid at once') AS note",
        )
        made.write.option("compression", "none").parquet(str(self._source))

    def run(self, side: str) -> float:
        """Write everything once; 1000 rows a second, of all micro-batches but the first, which warms up."""
        home = self._home / f"run-{next(_numbers)}"
        home.mkdir()
        writer = self._stream().writeStream.option("checkpointLocation", str(home / "checkpoint"))
        if side == SPARKS_OWN:
            writer = writer.format("parquet").option("path", str(home / "table"))
        else:
            writer = writer.format("tidelog-table").options(**_options(side, home))
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(QUERY_TIMEOUT_S):
            raise RuntimeError(f"{side} did not end within {QUERY_TIMEOUT_S} s")
        counted = [each for each in query.recentProgress if each.numInputRows][1:]
        self._check(side, home)
        shutil.rmtree(home)
        took_ms = sum(each.durationMs["triggerExecution"] for each in counted)
        return sum(each.numInputRows for each in counted) / took_ms

    def _stream(self) -> DataFrame:
        reader = self._session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_MICRO_BATCH)
        return reader.parquet(str(self._source))

    def _check(self, side: str, home: Path) -> None:
        found = _row_count(side, home, self._session)
        if found != self.rows:
            raise RuntimeError(f"{side} wrote {found} rows of {self.rows}")


def _options(side: str, home: Path) -> dict[str, str]:
    if side != "iceberg":
        return {"table.format": side, "table.path": str(home / "table")}
    return {
        "table.format": "iceberg",
        "table.name": "bench.orders",
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{home / 'catalog.db'}",
        "catalog.warehouse": f"file://{home / 'warehouse'}",
    }


def _row_count(side: str, home: Path, session: SparkSession) -> int:
    if side == "delta":
        from deltalake import DeltaTable

        return int(DeltaTable(home / "table").to_pyarrow_dataset().count_rows())
    if side == "iceberg":
        from pyiceberg.catalog import load_catalog

        options = {name.removeprefix("catalog."): value for name, value in _options(side, home).items()}
        return int(load_catalog("default", **options).load_table("bench.orders").scan().count())
    return session.read.parquet(str(home / "table")).count()


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[[], *FORMATS], metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1, help="rounds before those, for compilers and caches")
    parser.add_argument("--rows", type=int, default=400_000, help="per micro-batch")
    parser.add_argument("--micro-batches", type=int, default=5, help="per round; the first one is not counted")
    return parser.parse_args()


def main() -> int:
    """Measure and print; returns the exit code."""
    options = _parsed()
    sides = [SPARKS_OWN, *(options.formats or FORMATS)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {MASTER}, ", end="")
    print(f"load average before: {os.getloadavg()[0]:.1f}", flush=True)
    results: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary:
        try:
            session = spark_session("tidelog tables", master=MASTER, settings=_SETTINGS)
        except (NoJava, SparkMissing) as missing:
            print(missing, file=sys.stderr)
            return 1
        session.sparkContext.setLogLevel("ERROR")
        bed = Bed(session, Path(temporary), rows_each=options.rows, micro_batches=options.micro_batches)
        for number in range(options.warmup + options.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                value = bed.run(side)
                if number >= options.warmup:
                    results[side].append(value)
        session.stop()
    theirs = Summary(tuple(results[SPARKS_OWN]))
    print(f"{SPARKS_OWN:<14} 1000 rows/s {theirs}")
    for side in sides[1:]:
        ours = Summary(tuple(results[side]))
        print(f"{side:<14} 1000 rows/s {ours}   {ratio(ours, theirs)}, wanted at least {BAR}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A streaming query into a table without Spark: a checkpoint, tasks and a driver, whose calls a test makes one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.pipeline.sink.modes import Task
from tidelog.pipeline.tables.committing import TableCommit
from tidelog.pipeline.tables.options import TableSettings
from tidelog.pipeline.tables.schemas import arrow_schema

FORMATS: Final = ("parquet", "delta", "iceberg")
ICEBERG_NAME: Final = "shop.orders"

COLUMNS: Final = StructType.fromJson(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "country", "type": "string", "nullable": True, "metadata": {}},
            {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        ],
    }
)
ARROW: Final = pa.schema([("id", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", "UTC"))])

Make = Callable[[TableSettings, pa.Schema], TableCommit]


def table_options(table_format: str, home: Path, **more: str) -> dict[str, str]:
    """Where the one table of a test is. Two underscores stand for a dot in names."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    if table_format != "iceberg":
        return {"table.format": table_format, "table.path": str(home / "table"), **named}
    return {
        "table.format": "iceberg",
        "table.name": ICEBERG_NAME,
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{home / 'catalog.db'}",
        "catalog.warehouse": f"file://{home / 'warehouse'}",
        **named,
    }


class DrivenTable:
    """What Spark would do for one run of a query. Runs on one checkpoint share everything but their run id."""

    def __init__(
        self,
        table_format: str,
        home: Path,
        *,
        run: str = "run-1",
        query_id: str = "query-1",
        columns: StructType = COLUMNS,
        make: Make = TableCommit.prepared,
        **options: str,
    ) -> None:
        self.home = home
        self.run = run
        self.query_id = query_id
        checkpoint = home / f"checkpoint-{query_id}"
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        self._checkpoint = checkpoint
        given = {**table_options(table_format, home, **options), "checkpointLocation": str(checkpoint)}
        self.settings = TableSettings.of_stream(given)
        self._columns = columns
        self._make = make
        self._attempts = 0

    @property
    def mode(self) -> TableCommit:
        """Another one every time, as Spark makes it."""
        return self._make(self.settings, arrow_schema(self._columns, self.settings))

    def write(self, number: int, *partitions: pa.RecordBatch) -> list[WriterCommitMessage | None]:
        """Run one successful task for each partition's rows; returns the messages."""
        file = self._checkpoint / "offsets" / str(number)
        if not file.exists():
            file.write_text("\n".join(["v1", "{}", json.dumps({"source": {"0": number}})]))
        mode = self.mode
        return [mode.task_write(iter([rows]), self.task(number, index)) for index, rows in enumerate(partitions)]

    def run_micro_batch(self, number: int, *partitions: pa.RecordBatch) -> None:
        """Tasks and commit, with another object for each."""
        messages = self.write(number, *partitions)
        self.mode.commit(messages, number)

    def task(self, number: int, partition: int = 0) -> Task:
        self._attempts += 1
        return Task(
            partition=partition,
            attempt=0,
            attempt_id=self._attempts,
            query_id=self.query_id,
            run_id=self.run,
            micro_batch_id=number,
        )


def rows_of(numbers: Iterable[int], schema: pa.Schema = ARROW) -> pa.RecordBatch:
    """An hour and a country for every number, and the number."""
    listed = list(numbers)
    rows = [{"id": each, "country": "DE" if each % 2 else "FR", "at": each * 1_800_000_000} for each in listed]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def read_by_library(table_format: str, home: Path) -> pa.Table:
    """All rows, as the library of the format reads them."""
    match table_format:
        case "parquet":
            return ds.dataset(home / "table", partitioning="hive").to_table()
        case "delta":
            return DeltaTable(home / "table").to_pyarrow_table()
        case _:
            return loaded(home).scan().to_arrow()


def read_by_duckdb(table_format: str, home: Path) -> list[tuple[Any, ...]]:
    """All ids. DuckDB knows Delta and Iceberg by extensions, which must be downloaded; here it reads the files that the log names."""
    match table_format:
        case "parquet":
            files = [str(home / "table" / "**" / "*.parquet")]
        case "delta":
            files = DeltaTable(home / "table").file_uris()
        case _:
            files = [task.file.file_path.removeprefix("file://") for task in loaded(home).scan().plan_files()]
    if not files:
        return []
    with duckdb.connect() as connection:
        found: list[tuple[Any, ...]] = connection.execute("SELECT id FROM read_parquet(?)", [files]).fetchall()
        return found


def loaded(home: Path) -> Any:
    """The Iceberg table."""
    options = table_options("iceberg", home)
    properties = {
        name.removeprefix("catalog."): value for name, value in options.items() if name.startswith("catalog.")
    }
    return load_catalog("default", **properties).load_table(ICEBERG_NAME)


def ids(table_format: str, home: Path) -> Counter[int]:
    """Every id and how often it is there, on which two readers must agree."""
    found = Counter(read_by_library(table_format, home).column("id").to_pylist())
    assert found == Counter(row[0] for row in read_by_duckdb(table_format, home))
    return found


def data_files(home: Path) -> Sequence[Path]:
    """All Parquet files, named or not, and files that were not finished."""
    found = [*home.rglob("*.parquet*"), *home.rglob("*.staged*")]
    return sorted(file for file in found if "metadata" not in file.parts and "source" not in file.parts)

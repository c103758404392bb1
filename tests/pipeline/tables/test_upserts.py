"""A table that has the last row of every key: the order of changes, deletes, replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from tests.pipeline.tables.driving import DrivenTable, read_by_library, rows_of
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables import changes
from tidelog.pipeline.tables.errors import TableFailed

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("table_format", ["delta", "iceberg"])]

COLUMNS = StructType(
    [
        StructField("shop", StringType()),
        StructField("name", StringType()),
        StructField("city", StringType()),
        StructField("offset", LongType()),
        StructField("gone", BooleanType()),
    ]
)
ARROW = pa.schema(
    [("shop", pa.string()), ("name", pa.string()), ("city", pa.string()), ("offset", pa.int64()), ("gone", pa.bool_())]
)


def query(table_format: str, home: Path, *, run: str = "run-1", **options: str) -> DrivenTable:
    own: dict[str, Any] = {
        "table__mode": "upsert",
        "table__key": "name",
        "table__order": "offset",
        "table__delete": "gone",
    }
    return DrivenTable(table_format, home, run=run, columns=COLUMNS, **{**own, **options})


def change(name: str | None, city: str | None, offset: int, shop: str = "s") -> dict[str, Any]:
    return {"shop": shop, "name": name, "city": city, "offset": offset, "gone": city is None}


def rows(*listed: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(listed), schema=ARROW)


def state(table_format: str, home: Path) -> dict[tuple[str, str], str]:
    found = read_by_library(table_format, home)
    assert "gone" not in found.column_names
    listed = [((row["shop"], row["name"]), row["city"]) for row in found.to_pylist()]
    assert len(listed) == len(dict(listed)), "every key once"
    return dict(listed)


def test_the_last_change_of_a_key_is_what_is_there(table_format: str, tmp_path: Path) -> None:
    first = query(table_format, tmp_path)
    # Rows of one key may come in any order, and from two tasks.
    first.run_micro_batch(0, rows(change("a", "late", 7), change("b", "x", 2)), rows(change("a", "early", 1)))
    assert state(table_format, tmp_path) == {("s", "a"): "late", ("s", "b"): "x"}
    first.run_micro_batch(
        1, rows(change("a", None, 8), change("c", "y", 9), change("d", "z", 10), change("d", None, 11))
    )
    assert state(table_format, tmp_path) == {("s", "b"): "x", ("s", "c"): "y"}
    query(table_format, tmp_path, run="run-2").run_micro_batch(1, rows(change("a", None, 8), change("c", "y", 9)))
    first.run_micro_batch(2, rows(change("a", "back", 12), change("b", "x2", 13)))
    assert state(table_format, tmp_path) == {("s", "a"): "back", ("s", "b"): "x2", ("s", "c"): "y"}


def test_a_key_may_be_of_several_columns_and_a_table_divided(table_format: str, tmp_path: Path) -> None:
    made = query(table_format, tmp_path, table__key="shop,name", partition__by="shop")
    made.run_micro_batch(0, rows(change("a", "1", 1, "s"), change("a", "2", 2, "t"), change("b", "3", 3, "t")))
    made.run_micro_batch(1, rows(change("a", "4", 4, "t"), change("a", None, 5, "s")))
    assert state(table_format, tmp_path) == {("t", "a"): "4", ("t", "b"): "3"}


def test_a_row_without_a_key_is_told(table_format: str, tmp_path: Path) -> None:
    with pytest.raises(BadRows, match=r"column 'name' of table.key is null in a row"):
        query(table_format, tmp_path).run_micro_batch(0, rows(change(None, "x", 1)))


def test_more_than_the_driver_takes_is_refused(
    table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHANGES_BYTES_MAX", 10)
    with pytest.raises(TableFailed, match="bound it at the source, with maxOffsetsPerTrigger"):
        query(table_format, tmp_path).run_micro_batch(0, rows(change("a", "x", 1)))


def test_a_part_of_a_time_divides_an_upserted_delta_table_and_no_iceberg_table(
    table_format: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "table__mode": "upsert",
        "table__key": "id",
        "table__order": "at",
        "partition__by": "day(at)",
    }
    if table_format == "iceberg":
        with pytest.raises(OptionRefused, match="pyiceberg rewrites no files of partitions by time"):
            DrivenTable(table_format, tmp_path, **options)
        return
    made = DrivenTable(table_format, tmp_path, **options)
    made.run_micro_batch(0, rows_of(range(100)))
    made.run_micro_batch(1, rows_of(range(50, 120)))
    found = read_by_library(table_format, tmp_path)
    assert sorted(found["id"].to_pylist()) == list(range(120))
    days = {(row["at"].date(), row["at_day"]) for row in found.to_pylist()}
    assert all(of_row == of_partition for of_row, of_partition in days)

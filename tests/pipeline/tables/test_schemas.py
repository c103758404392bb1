"""Tables of another schema are refused before anything is written, or get the columns that they do not have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from tests.pipeline.tables.driving import COLUMNS, FORMATS, DrivenTable, data_files, ids, read_by_library, rows_of
from tidelog.pipeline.tables.errors import SchemaDiffers, TableFailed

pytestmark = pytest.mark.slow

OTHER_TYPE = StructType([StructField("id", StringType()), *COLUMNS.fields[1:]])
MORE = StructType([*COLUMNS.fields, StructField("note", StringType())])
FEWER = StructType(COLUMNS.fields[:1])
ARROW_MORE = pa.schema(
    [("id", pa.int64()), ("country", pa.string()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())]
)


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (OTHER_TYPE, "column 'id' is bigint there, and string here"),
        (MORE, "column 'note' is not there, and string here"),
        (FEWER, "column 'country' is string there, and not here; column 'at' is timestamp there, and not here"),
    ],
)
def test_a_table_of_another_schema_is_refused_before_anything_is_written(
    table_format: str, columns: StructType, told: str, tmp_path: Path
) -> None:
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of([1]))
    with pytest.raises(SchemaDiffers, match=told):
        DrivenTable(table_format, tmp_path, query_id="other", columns=columns).mode  # noqa: B018
    assert len(data_files(tmp_path)) == 1


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_table_that_is_divided_in_another_way_is_refused(table_format: str, tmp_path: Path) -> None:
    DrivenTable(table_format, tmp_path, partition__by="day(at)").run_micro_batch(0, rows_of([1]))
    with pytest.raises(SchemaDiffers, match=r"partitioned by .*day.*, and the option partition.by says nothing"):
        DrivenTable(table_format, tmp_path, query_id="other").mode  # noqa: B018


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_columns_are_added_where_that_is_wanted(table_format: str, tmp_path: Path) -> None:
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of([1]))
    more = DrivenTable(table_format, tmp_path, query_id="more", columns=MORE, schema__evolution="add-columns")
    row: dict[str, Any] = {"id": 2, "country": "IT", "at": 0, "note": "new"}
    more.run_micro_batch(0, pa.RecordBatch.from_pylist([row], schema=ARROW_MORE))
    # Whoever does not know the new column goes on, if told so.
    DrivenTable(table_format, tmp_path, schema__evolution="add-columns").run_micro_batch(1, rows_of([3]))
    assert ids(table_format, tmp_path) == Counter([1, 2, 3])
    notes = read_by_library(table_format, tmp_path).select(["id", "note"]).sort_by("id").to_pylist()
    assert [each["note"] for each in notes] == [None, "new", None]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_type_is_never_changed(table_format: str, tmp_path: Path) -> None:
    DrivenTable(table_format, tmp_path).run_micro_batch(0, rows_of([1]))
    query = DrivenTable(table_format, tmp_path, query_id="q", columns=OTHER_TYPE, schema__evolution="add-columns")
    with pytest.raises(SchemaDiffers, match="column 'id' is bigint there, and string here"):
        query.mode  # noqa: B018


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "data.csv").touch()
    with pytest.raises(TableFailed, match=r"is no table of this sink, and not empty \(data.csv\)"):
        DrivenTable("parquet", tmp_path).mode  # noqa: B018


def test_a_column_that_must_not_be_null_takes_no_rows_that_may(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    there = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("us", "UTC"))])
    DeltaTable.create(tmp_path / "table", schema=there)
    may_be_null = StructType([StructField("id", LongType()), StructField("at", TimestampType())])
    with pytest.raises(SchemaDiffers, match="column 'id' must not be null there, and may be here"):
        DrivenTable("delta", tmp_path, columns=may_be_null).mode  # noqa: B018
    must_not = StructType([StructField("id", LongType(), nullable=False), StructField("at", TimestampType())])
    assert DrivenTable("delta", tmp_path, columns=must_not).mode is not None

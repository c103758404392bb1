"""The options of tidelog-table: what they mean, and what is said of those that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.tables.driving import COLUMNS, table_options
from tidelog.pipeline.options import OptionRefused, UnknownOption
from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.options import TableSettings, option_names
from tidelog.pipeline.tables.partitioning import Term
from tidelog.pipeline.tables.schemas import arrow_schema

DOCS = Path(__file__).parents[3] / "docs" / "tables.md"


def stream(**options: str) -> TableSettings:
    named = {name.replace("__", "."): value for name, value in options.items()}
    given = {"table.format": "delta", "table.path": "/t", "checkpointLocation": "/c", **named}
    return TableSettings.of_stream({name: value for name, value in given.items() if value})


def test_partitions_are_columns_and_parts_of_a_time() -> None:
    settings = stream(partition__by="day(at), country , hour( at )")
    assert settings.terms == (Term(column="at", unit="day"), Term(column="country"), Term(column="at", unit="hour"))
    assert [term.name for term in settings.terms] == ["at_day", "country", "at_hour"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table__format": ""}, "Option table.format: it must be set; accepted is one of parquet, delta, iceberg"),
        ({"table__format": "orc"}, "Option table.format: 'orc' is not accepted, but .*parquet"),
        ({"table__path": ""}, "Option table.path: it must name the directory"),
        (
            {"table__path": "s3://bucket/t"},
            "Option table.path: 's3://bucket/t' is not in a file system that is mounted",
        ),
        ({"checkpointLocation": ""}, "Option checkpointLocation"),
        ({"table__name": "a.b"}, "Option table.name: delta tables have no catalog"),
        ({"table__mode": "upsert"}, "Option table.key: table.mode=upsert wants to know"),
        ({"table__mode": "upsert", "table__key": "id"}, "Option table.order: table.mode=upsert wants to know"),
        ({"table__key": "id"}, "Option table.key: it is for table.mode=upsert"),
        ({"partition__by": "week(at)"}, r"Option partition.by: 'week\(at\)' is not accepted, but a column or year"),
        ({"partition__by": "a, a"}, "Option partition.by: 'a, a' names a partition twice"),
        ({"txnAppId": "x"}, "Option txnAppId: a query has its own id"),
        ({"file__bytes": "12"}, "Option file.bytes: '12' is not accepted"),
        ({"table__format": "parquet", "table__mode": "upsert", "table__key": "id", "table__order": "at"}, "table.mode"),
        ({"table__format": "parquet", "schema__evolution": "add-columns"}, "Option schema.evolution"),
        ({"table__format": "parquet", "compact__every": "5"}, "Option compact.every"),
        ({"table__format": "parquet", "partition__by": "_hidden"}, "readers pass over directories called _hidden="),
        ({"table__format": "iceberg"}, "Option table.path: Iceberg tables are where their catalog puts them"),
        ({"table__format": "iceberg", "table__path": "", "table__name": "orders"}, "Option table.name: it must be set"),
        ({"table__format": "iceberg", "table__path": "", "table__name": "shop.orders"}, "Option catalog.uri: describe"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_name(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionRefused, match=told):
        stream(**options)


def test_an_unknown_option_gets_the_nearest_one() -> None:
    with pytest.raises(
        UnknownOption, match=r"the format tidelog-table has no such option; did you mean table.format\?"
    ):
        stream(table__formt="delta")
    with pytest.raises(UnknownOption, match=r"kafka.bootstrap.servers"):
        stream(kafka__bootstrap__servers="x:1")


def test_the_two_halves_of_a_transaction_belong_together() -> None:
    with pytest.raises(OptionRefused, match="txnAppId and txnVersion belong together"):
        TableSettings.of_batch({"table.format": "delta", "table.path": "/t", "txnAppId": "x"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition__by": "day(nowhere)"}, "there is no column 'nowhere'; there are id, country, at"),
        ({"partition__by": "day(country)"}, r"day\(country\) wants a timestamp, and column 'country' is string"),
        ({"partition__by": "at"}, "column 'at' is timestamp.*; accepted are text, whole numbers, booleans and dates"),
        ({"partition__by": "id,country"}, None),
        (
            {"table__mode": "upsert", "table__key": "who", "table__order": "at"},
            "Option table.key: there is no column 'who'",
        ),
        (
            {"table__mode": "upsert", "table__key": "at", "table__order": "at"},
            "Option table.key: column 'at' is timestamp",
        ),
        (
            {"table__mode": "upsert", "table__key": "id", "table__order": "at", "table__delete": "country"},
            "Option table.delete: column 'country' must be boolean",
        ),
    ],
)
def test_options_that_name_columns_name_columns_that_are_there(options: dict[str, str], told: str | None) -> None:
    settings = stream(**options)
    if told is None:
        assert arrow_schema(COLUMNS, settings).names == COLUMNS.names
        return
    with pytest.raises(OptionRefused, match=told):
        arrow_schema(COLUMNS, settings)


def test_a_column_that_tables_do_not_take_is_named() -> None:
    from pyspark.sql.types import DayTimeIntervalType, StructField, StructType

    inner = StructType([StructField("wait", DayTimeIntervalType())])
    with pytest.raises(BadRows, match=r"column 'order.wait' is interval day to second, which tables do not take"):
        arrow_schema(StructType([StructField("order", inner)]), stream())


def test_every_option_is_documented() -> None:
    text = DOCS.read_text()
    assert [name for name in option_names() if f"`{name}`" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize(("table_format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_package_that_is_not_installed_is_named(table_format: str, package: str, tmp_path: Path) -> None:
    """In an interpreter that cannot import it, as where it was not installed."""
    options = table_options(table_format, tmp_path)
    program = f"""
import sys
sys.modules[{package!r}] = None
from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.tables.formats import table_of
from tidelog.pipeline.tables.options import TableSettings
try:
    table_of(TableSettings.of_batch({options!r}))
except OptionRefused as refused:
    print(refused)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=200)
    assert f"needs the package {package}, which is not installed" in done.stdout
    assert "pip install 'tidelog[spark,tables]'" in done.stdout


@pytest.mark.slow
def test_finding_the_format_imports_nothing_heavy() -> None:
    """Spark imports the module in every planner process, whatever the query."""
    program = (
        "import sys, pyspark_tidelog_table as m; print(sorted({'deltalake', 'pyiceberg', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.strip() == "[]"

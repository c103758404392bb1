"""Schemas as text, read without Spark, mean what they mean to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.ddl import parse_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS = (
    "id BIGINT NOT NULL, name string",
    "a: int, `odd ``name`` here` DOUBLE, b DECIMAL(10,2), c decimal, d decimal(5)",
    "tags ARRAY<STRING>, sizes MAP<STRING, ARRAY<INT>>, at TIMESTAMP COMMENT 'when', n STRUCT<x: INT NOT NULL, y: STRUCT<z: DATE>>",
    "a boolean, b tinyint, c smallint, d int, e long, f float, g double, h binary, i date, j timestamp_ntz",
)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_spark_reads_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    for text in SCHEMAS:
        ours, sparks = parse_ddl(text), StructType.fromDDL(text)
        assert isinstance(sparks, StructType)
        for field in sparks.fields:
            field.metadata.clear()
        assert ours == sparks, text


def test_a_schema_is_read_without_a_session() -> None:
    assert parse_ddl(SCHEMAS[0]).simpleString() == "struct<id:bigint,name:string>"
    assert [field.nullable for field in parse_ddl(SCHEMAS[0]).fields] == [False, True]
    assert parse_ddl(SCHEMAS[2]).simpleString() == (
        "struct<tags:array<string>,sizes:map<string,array<int>>,at:timestamp,n:struct<x:int,y:struct<z:date>>>"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a field was expected, and there is its end"),
        ("id", "a type was expected, and there is its end"),
        ("id NUMBER", "a type was expected, and there is 'NUMBER'"),
        ("id INT name STRING", "',' was expected, and there is 'name'"),
        ("tags ARRAY<STRING", "'>' was expected, and there is its end"),
        ("id INT NOT", "'NULL' was expected"),
        ("id DECIMAL(x)", "a number was expected, and there is 'x'"),
        ("id INT; drop", "is not understood from '; drop' on"),
    ],
)
def test_what_is_no_schema_is_told_where(text: str, told: str) -> None:
    with pytest.raises(BadRows) as refused:
        parse_ddl(text)
    assert told in str(refused.value)

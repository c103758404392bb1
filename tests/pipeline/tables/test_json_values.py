"""JSON read by a schema: what is a row, and why what is none is none."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.json_values import JsonReader, Misfit

UTC = datetime.UTC


def reader(kind: DataType, *, is_nullable: bool = True) -> JsonReader:
    return JsonReader(StructType([StructField("x", kind, is_nullable)]))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LongType(), "9223372036854775807", 9223372036854775807),
        (ByteType(), "-128", -128),
        (DoubleType(), "1", 1.0),
        (DoubleType(), "1.5e3", 1500.0),
        (FloatType(), "0.5", 0.5),
        (DecimalType(10, 2), "1.1", Decimal("1.10")),
        (DecimalType(10, 2), '"12345678.90"', Decimal("12345678.90")),
        (DecimalType(3, 2), "0.004e3", Decimal("4.00")),
        (StringType(), '"12"', "12"),
        (BooleanType(), "true", True),
        (DateType(), '"2026-01-31"', datetime.date(2026, 1, 31)),
        (TimestampType(), '"2026-01-31T01:00:00+01:00"', datetime.datetime(2026, 1, 31, tzinfo=UTC)),
        (TimestampType(), '"2026-01-31 00:00:00"', datetime.datetime(2026, 1, 31, tzinfo=UTC)),
        (TimestampNTZType(), '"2026-01-31T00:00:00"', datetime.datetime(2026, 1, 31)),  # noqa: DTZ001
        (ArrayType(IntegerType()), "[1, null]", [1, None]),
        (MapType(StringType(), IntegerType()), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        (StructType([StructField("y", IntegerType())]), '{"y": 1, "z": 2}', {"y": 1}),
        (LongType(), "null", None),
    ],
)
def test_a_value_of_the_right_kind_is_read(kind: DataType, text: str, value: Any) -> None:
    assert reader(kind).read(f'{{"x": {text}, "more": 1}}'.encode()) == {"x": value}


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (LongType(), '"12"', "x: expected bigint, got text '12'"),
        (LongType(), "1.0", "x: expected bigint, got number 1.0"),
        (LongType(), "true", "x: expected bigint, got true"),
        (LongType(), "9223372036854775808", "x: number 9223372036854775808 does not fit into bigint"),
        (IntegerType(), "3000000000", "x: number 3000000000 does not fit into int"),
        (DecimalType(4, 2), "123.4", "x: number 123.4 does not fit into decimal(4,2)"),
        (DecimalType(4, 2), "1.234", "x: number 1.234 does not fit into decimal(4,2)"),
        (DecimalType(4, 2), '"much"', "x: expected decimal(4,2), got text 'much'"),
        (DoubleType(), "1e999", "x: number 1E+999 does not fit into double"),
        (FloatType(), "1e39", "x: number 1E+39 does not fit into float"),
        (StringType(), "12", "x: expected string, got number 12"),
        (StringType(), '{"a": 1}', "x: expected string, got an object"),
        (BooleanType(), "1", "x: expected boolean, got number 1"),
        (DateType(), '"31.1.2026"', "x: expected date (2026-01-31), got text '31.1.2026'"),
        (TimestampType(), "5", "x: expected timestamp (2026-01-31T12:00:00Z), got number 5"),
        (TimestampNTZType(), '"2026-01-31T00:00:00Z"', "x: expected a timestamp without a zone"),
        (ArrayType(IntegerType()), '[1, "2"]', "x[1]: expected int, got text '2'"),
        (ArrayType(IntegerType(), containsNull=False), "[null]", "x[0]: null, and must not be"),
        (ArrayType(IntegerType()), "{}", "x: expected array, got an object"),
        (StructType([StructField("y", IntegerType())]), '{"y": "1"}', "x.y: expected int, got text '1'"),
        (MapType(StringType(), IntegerType()), '{"a": "1"}', "x: expected int, got text '1'"),
    ],
)
def test_a_value_of_another_kind_is_told(kind: DataType, text: str, reason: str) -> None:
    with pytest.raises(Misfit) as told:
        reader(kind).read(f'{{"x": {text}}}')
    assert str(told.value).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON: Expecting property name"),
        (b"", "not JSON: Expecting value"),
        (b'{"x": 1} {', "not JSON: Extra data"),
        (b'{"x": NaN}', "not JSON: NaN is no number"),
        (b"\xff\xfe", "not JSON: not UTF-8"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b"[1]", "not an object, but an array"),
        (b"{}", "x: missing, and must not be"),
        (b'{"x": null}', "x: null, and must not be"),
        (None, "there is no value"),
    ],
)
def test_what_is_no_row_is_told(text: bytes | None, reason: str) -> None:
    with pytest.raises(Misfit) as told:
        reader(LongType(), is_nullable=False).read(text)
    assert str(told.value).startswith(reason)


def test_a_schema_that_json_cannot_tell_is_refused() -> None:
    with pytest.raises(BadRows, match="field 'x' is binary, which is not read from JSON"):
        reader(BinaryType())
    with pytest.raises(BadRows, match="a map whose keys are integer"):
        reader(MapType(IntegerType(), StringType()))


def test_a_reason_is_of_bounded_length() -> None:
    with pytest.raises(Misfit) as told:
        reader(LongType()).read('{"x": "' + "a" * 10_000 + '"}')
    assert len(str(told.value)) < 200

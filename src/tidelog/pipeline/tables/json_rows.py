"""Rows from the JSON values of a topic, and beside them the records that are none, each with its reason.

Both are DataFrames over the same input: write the rows to a table and the rejects to a topic, with a query each. What becomes of a record
depends on nothing but the record, so it is in one of the two, exactly once, whatever dies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.ddl import parse_ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

REASON_HEADER: Final = "tidelog.reason"
_FROM: Final = ("topic", "partition", "offset")
_TIMESTAMP: Final = "timestamp"
_ALWAYS: Final = ("key", "value", *_FROM, _TIMESTAMP)
"""Columns that our source has by itself."""
_READ: Final = "tidelog read"
_ROW: Final = "row"
_REASON: Final = "reason"


@dataclass(frozen=True, slots=True)
class JsonRows:
    """What became of the records."""

    rows: DataFrame
    """The columns of the schema, and those that were to be kept."""

    rejects: DataFrame
    """key, value and headers for the format tidelog: the record as it was, and in headers `tidelog.reason` and where it came from."""


def json_rows(
    records: DataFrame, schema: str | StructType, *, keep: Sequence[str] = (), has_headers: bool = False
) -> JsonRows:
    """Read the column `value` by a schema, given as DDL or as a StructType; NOT NULL makes a field one that must be there.

    `keep` names columns of the records that rows keep: offset, say. `has_headers` says that the records have a column headers, where that
    cannot be seen: over Spark Connect, and so in definition files of pipelines. Raises BadRows for a schema that cannot be read from JSON,
    and for columns that are not there.
    """
    from pyspark.sql import functions
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import StringType, StructField, StructType

    wanted = parse_ddl(schema) if isinstance(schema, str) else schema
    seen = _columns(records)
    _check(wanted, keep, seen)
    columns = [*(_ALWAYS if seen is None else seen), *(["headers"] if has_headers else [])]
    result = StructType([StructField(_ROW, _nullable(wanted)), StructField(_REASON, StringType())])
    made: Any = arrow_udf  # whose hints do not know that it may return a struct
    read = made(_reader_of(wanted), result)
    both = records.withColumn(_READ, read(functions.col("value")))
    column = functions.col(f"`{_READ}`")
    is_row = column[_REASON].isNull()
    fields = [column[_ROW][field.name].alias(field.name) for field in wanted.fields]
    rows = both.where(is_row).select(*fields, *(functions.col(f"`{name}`") for name in keep))
    rejects = both.where(~is_row).select(*_as_record(columns, column[_REASON]))
    return JsonRows(rows, rejects)


def _columns(records: DataFrame) -> list[str] | None:
    """The columns of the records; None over Spark Connect, on which declared pipelines run: a definition file may not ask."""
    is_remote = type(records).__module__.startswith("pyspark.sql.connect")
    return None if is_remote else list(records.columns)


def _check(wanted: StructType, keep: Sequence[str], columns: Sequence[str] | None) -> None:
    from tidelog.pipeline.tables.json_values import JsonReader

    JsonReader(wanted)
    for name in ("value", *keep):
        if columns is not None and name not in columns:
            raise BadRows(f"there is no column {name!r} in the records; there are {', '.join(columns)}")
    both = set(keep) & set(wanted.names)
    if both:
        raise BadRows(f"the column {sorted(both)[0]!r} is kept from the records and in the schema: rename one of them")


def _nullable(kind: Any) -> Any:
    """The type with nothing required, since rows that are rejected have null everywhere."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match kind:
        case StructType():
            return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType))
        case _:
            return kind


def _reader_of(wanted: StructType) -> Any:
    """For workers: they get the schema as a text."""
    text = wanted.json()

    def read_values(values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        import json

        from pyspark.sql.types import StructType

        from tidelog.pipeline.tables.json_values import JsonReader
        from tidelog.pipeline.tables.schemas import plain_arrow_type

        schema = StructType.fromJson(json.loads(text))
        reader = JsonReader(schema)
        row_type = plain_arrow_type(_nullable(schema))
        for batch in values:
            yield _read_batch(reader, row_type, batch)

    # Spark tells the kind of a function from its hints, which must be there as types.
    import pyarrow

    read_values.__annotations__ = {"values": Iterator[pyarrow.Array], "return": Iterator[pyarrow.Array]}
    return read_values


def _read_batch(reader: Any, row_type: pa.DataType, values: pa.Array) -> pa.Array:
    import pyarrow as pa

    from tidelog.pipeline.tables.json_values import Misfit

    rows: list[dict[str, Any] | None] = []
    reasons: list[str | None] = []
    for value in values.to_pylist():
        try:
            rows.append(reader.read(value))
            reasons.append(None)
        except Misfit as misfit:
            rows.append(None)
            reasons.append(str(misfit))
    return pa.StructArray.from_arrays([pa.array(rows, row_type), pa.array(reasons, pa.string())], names=[_ROW, _REASON])


def _as_record(columns: Sequence[str], reason: Column) -> list[Column]:
    """The record as the sink for topics takes it, and headers behind its own that say where it is from."""
    from pyspark.sql import functions

    told = {REASON_HEADER: reason}
    told |= {f"tidelog.{name}": functions.col(name).cast("string") for name in _FROM if name in columns}
    if _TIMESTAMP in columns:
        told[f"tidelog.{_TIMESTAMP}"] = functions.unix_millis(functions.col(_TIMESTAMP)).cast("string")
    made = functions.array(
        *(
            functions.struct(functions.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in told.items()
        )
    )
    headers = made
    if "headers" in columns:
        none = functions.array().cast(_HEADERS)
        headers = functions.concat(
            functions.coalesce(functions.col("headers").cast(_HEADERS), none), made.cast(_HEADERS)
        )
    key = functions.col("key") if "key" in columns else functions.lit(None).cast("binary")
    return [key.alias("key"), functions.col("value"), headers.cast(_HEADERS).alias("headers")]


_HEADERS: Final = "array<struct<key:string,value:binary>>"

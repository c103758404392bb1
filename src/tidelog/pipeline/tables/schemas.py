"""Columns: of Spark's rows as Arrow's, and whether a table has the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.tables.errors import SchemaDiffers
from tidelog.pipeline.tables.options import ICEBERG, TableSettings
from tidelog.pipeline.tables.partitioning import check_terms

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_SIMPLE: Final[dict[str, Callable[[Any], Any]]] = {
    "boolean": lambda pa: pa.bool_(),
    "byte": lambda pa: pa.int8(),
    "short": lambda pa: pa.int16(),
    "integer": lambda pa: pa.int32(),
    "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(),
    "double": lambda pa: pa.float64(),
    "string": lambda pa: pa.string(),
    "binary": lambda pa: pa.binary(),
    "date": lambda pa: pa.date32(),
    "timestamp": lambda pa: pa.timestamp("us", "UTC"),
    "timestamp_ntz": lambda pa: pa.timestamp("us"),
}
_WIDER: Final = {"byte": "integer", "short": "integer"}
"""Iceberg has no smaller whole numbers."""


def arrow_schema(schema: StructType, settings: TableSettings) -> pa.Schema:
    """The columns of a DataFrame as they stand in the files. Raises BadRows, or OptionRefused where an option names no column."""
    import pyarrow as pa

    wider = _WIDER if settings.table_format == ICEBERG else {}
    found = pa.schema(
        [
            pa.field(field.name, _arrow_type(field.dataType, field.name, wider), field.nullable)
            for field in schema.fields
        ]
    )
    repeated = {name for name in found.names if found.names.count(name) > 1}
    if repeated or not found.names:
        raise BadRows(f"rows must have columns, each name once: {', '.join(sorted(repeated)) or 'there are none'}")
    check_terms(settings.terms, found)
    _check_upsert(settings, found)
    return found


def plain_arrow_type(kind: Any) -> Any:
    """Spark's type as Arrow's. Raises BadRows."""
    return _arrow_type(kind, "", {})


def table_columns(schema: pa.Schema, settings: TableSettings) -> pa.Schema:
    """The columns of rows that are columns of the table."""
    import pyarrow as pa

    gone = settings.upsert.delete if settings.upsert is not None else None
    return pa.schema([field for field in schema if field.name != gone])


def stored_schema(schema: pa.Schema, settings: TableSettings) -> pa.Schema:
    """The columns of the table that rows with these columns make: all of them may be null."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in table_columns(schema, settings)])


def check_same(there: pa.Schema, here: pa.Schema, settings: TableSettings) -> list[pa.Field]:
    """The columns that are to be added to the table, none if it has the same. Raises SchemaDiffers."""
    new = [field for field in here if field.name not in there.names]
    compared = [_difference(there.field(field.name), field) for field in here if field.name in there.names]
    wrong = [told for told in compared if told is not None]
    if not settings.adds_columns:
        wrong += [f"column {field.name!r} is not there, and {type_name(field.type)} here" for field in new]
        wrong += [
            f"column {field.name!r} is {type_name(field.type)} there, and not here"
            for field in there
            if field.name not in here.names
        ]
    else:
        wrong += [
            f"column {field.name!r} must not be null there, and is not here"
            for field in there
            if field.name not in here.names and not field.nullable
        ]
    if wrong:
        raise _differs(settings, wrong, can_add=bool(new) and not settings.adds_columns)
    return new


def check_partitions(there: Iterable[str], settings: TableSettings) -> None:
    """Raises SchemaDiffers where the table is divided in another way than partition.by says."""
    found = list(there)
    wanted = [str(term) for term in settings.terms]
    if found != wanted:
        raise SchemaDiffers(
            f"the {settings.called} is partitioned by {', '.join(found) or 'nothing'}, and the option partition.by says "
            f"{', '.join(wanted) or 'nothing'}: "
            + (f"set it to {', '.join(found)!r}" if found else "leave it out, or begin another table")
        )


def type_name(kind: pa.DataType) -> str:
    """A type by the name that Spark gives it, whatever the library that the table was made with calls it."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        inner = ",".join(f"{field.name}:{type_name(field.type)}" for field in kind)
        return f"struct<{inner}>"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    for check, name in _NAMES:
        if getattr(types, check)(kind):
            return name
    return str(kind)


_NAMES: Final = (
    ("is_boolean", "boolean"),
    ("is_int8", "tinyint"),
    ("is_int16", "smallint"),
    ("is_int32", "int"),
    ("is_int64", "bigint"),
    ("is_float32", "float"),
    ("is_float64", "double"),
    ("is_string", "string"),
    ("is_large_string", "string"),
    ("is_string_view", "string"),
    ("is_binary", "binary"),
    ("is_large_binary", "binary"),
    ("is_binary_view", "binary"),
    ("is_date", "date"),
)


def _difference(there: pa.Field, here: pa.Field) -> str | None:
    one, other = type_name(there.type), type_name(here.type)
    if one != other:
        return f"column {here.name!r} is {one} there, and {other} here"
    if here.nullable and not there.nullable:
        return f"column {here.name!r} must not be null there, and may be here"
    return None


def _differs(settings: TableSettings, wrong: list[str], *, can_add: bool) -> SchemaDiffers:
    is_delta_like = settings.table_format != "parquet"
    advice = (
        "; schema.evolution=add-columns would add what is not there"
        if can_add and is_delta_like
        else "; cast or rename the columns, or begin another table"
    )
    return SchemaDiffers(f"the {settings.called} has another schema: {'; '.join(wrong)}{advice}")


def _arrow_type(kind: Any, path: str, wider: dict[str, str]) -> Any:
    import pyarrow as pa

    name = kind.typeName()
    if name in _SIMPLE:
        return _SIMPLE[wider.get(name, name)](pa)
    match name:
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "array":
            inner = _arrow_type(kind.elementType, f"{path}[]", wider)
            return pa.list_(pa.field("element", inner, kind.containsNull))
        case "map":
            item = pa.field("value", _arrow_type(kind.valueType, f"{path}{{}}", wider), kind.valueContainsNull)
            return pa.map_(_arrow_type(kind.keyType, f"{path} key", wider), item)
        case "struct":
            return pa.struct(
                [
                    pa.field(field.name, _arrow_type(field.dataType, f"{path}.{field.name}", wider), field.nullable)
                    for field in kind.fields
                ]
            )
    # Text with a collation, or of a bounded length, is text.
    if name in {"varchar", "char"} or name.startswith("string"):
        return pa.string()
    raise BadRows(f"column {path!r} is {kind.simpleString()}, which tables do not take: cast it")


def _check_upsert(settings: TableSettings, schema: pa.Schema) -> None:
    upsert = settings.upsert
    if upsert is None:
        return
    import pyarrow as pa

    named = {"table.key": upsert.key, "table.order": upsert.order, "table.delete": (upsert.delete,)}
    for option, columns in named.items():
        for column in columns:
            if column is not None and column not in schema.names:
                raise OptionRefused(option, f"there is no column {column!r}; there are {', '.join(schema.names)}")
    for column in upsert.key:
        kind = type_name(schema.field(column).type)
        if kind not in _KEY_TYPES:
            raise OptionRefused("table.key", f"column {column!r} is {kind}; accepted are {', '.join(_KEY_TYPES)}")
    if upsert.delete is not None and not pa.types.is_boolean(schema.field(upsert.delete).type):
        raise OptionRefused("table.delete", f"column {upsert.delete!r} must be boolean")
    if upsert.delete in {*upsert.key, *(term.column for term in settings.terms)}:
        raise OptionRefused("table.delete", f"column {upsert.delete!r} is no column of the table")


_KEY_TYPES: Final = ("string", "int", "bigint", "date")

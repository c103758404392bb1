"""Which columns a write may have: those of Spark's own sink for Kafka. Others are passed over, as there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.sink.options import SinkSettings


def check_columns(schema: StructType, settings: SinkSettings) -> None:
    """Raises BadRows for a column that is missing, or of a type that cannot be written."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise BadRows(f"there is no column value among {', '.join(types) or 'none'}: it is what is written")
    if "topic" not in types and settings.topic is None:
        raise BadRows("nothing says where to write: set the option topic, or give every row a column topic")
    for name, (accepts, accepted) in _ACCEPTED.items():
        if name in types and not accepts(types[name]):
            raise BadRows(f"{name} must be {accepted}, got {types[name].simpleString()}")


def _is_bytes(type_: DataType) -> bool:
    return isinstance(type_, BinaryType | StringType | NullType)


def _is_text(type_: DataType) -> bool:
    return isinstance(type_, StringType)


def _is_partition(type_: DataType) -> bool:
    return isinstance(type_, IntegerType)


def _is_headers(type_: DataType) -> bool:
    if not isinstance(type_, ArrayType) or not isinstance(type_.elementType, StructType):
        return False
    kinds = [(field.name, type(field.dataType)) for field in type_.elementType.fields]
    return kinds == [("key", StringType), ("value", BinaryType)]


_ACCEPTED: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "key": (_is_bytes, "binary or string"),
    "value": (_is_bytes, "binary or string"),
    "topic": (_is_text, "string"),
    "partition": (_is_partition, "int"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
}

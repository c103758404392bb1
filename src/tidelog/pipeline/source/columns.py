"""The columns of the source: those of Spark's own source for Kafka, with the same names, types and order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from tidelog.pipeline.options import OptionRefused

HEADERS: Final = "headers"
TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""As Spark writes its types."""


class _DataType(Protocol):
    def simpleString(self) -> str: ...  # noqa: N802  # Spark's name


class _Field(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dataType(self) -> _DataType: ...  # noqa: N802  # Spark's name
    @property
    def nullable(self) -> bool: ...


class Schema(Protocol):
    """What is needed of a StructType; this module, which every planner imports, does without Spark."""

    @property
    def fields(self) -> Sequence[_Field]:
        """The columns, in order."""
        ...


def columns_asked_for(names: tuple[str, ...] | None, *, includes_headers: bool) -> tuple[str, ...]:
    """The columns of a query that gives no schema: those named by the option `columns`, or all that Spark's source has."""
    if names is None:
        return tuple(name for name in TYPES if name != HEADERS or includes_headers)
    for name in names:
        if name not in TYPES:
            raise OptionRefused("columns", _unknown(name))
    if len(set(names)) != len(names):
        raise OptionRefused("columns", f"a column is named twice in {','.join(names)}")
    return names


def as_ddl(columns: Iterable[str]) -> str:
    """The schema of these columns in SQL."""
    return ", ".join(f"{name} {TYPES[name]}" for name in columns)


def columns_of(schema: Schema) -> tuple[str, ...]:
    """The columns of a schema that the user, or `as_ddl`, has given. Raises OptionRefused for one that the source does not have."""
    for field in schema.fields:
        if field.name not in TYPES:
            raise OptionRefused("schema", _unknown(field.name))
        given, ours = field.dataType.simpleString(), TYPES[field.name]
        if given != ours:
            raise OptionRefused(
                "schema",
                f"column {field.name} is {ours}, not {given}: read it as that, and cast it with "
                f"selectExpr('CAST({field.name} AS {given.upper()})')",
            )
        if not field.nullable:
            raise OptionRefused(
                "schema", f"column {field.name} may be null, as in Spark's own source: leave out NOT NULL"
            )
    names = tuple(field.name for field in schema.fields)
    if not names or len(set(names)) != len(names):
        raise OptionRefused("schema", f"it must have one column or several, each once, of {', '.join(TYPES)}")
    return names


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in TYPES], n=1)
    meant = next((each for each in TYPES if near and each.lower() == near[0]), None)
    advice = f"did you mean {meant}?" if meant else f"there are {', '.join(TYPES)}"
    return f"there is no column {name!r}; {advice}"

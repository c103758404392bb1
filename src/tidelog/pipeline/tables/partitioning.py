"""How a table is divided: by columns, and by the year, month, day or hour of one, in UTC.

In Parquet and Delta a term of time becomes a column of its own, `<column>_<unit>`; Iceberg keeps it as a hidden partition of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.options import OptionRefused
from tidelog.pipeline.sink.errors import BadRows

if TYPE_CHECKING:
    import pyarrow as pa

UNITS: Final = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}
_TERM: Final = re.compile(rf"(?:(?P<unit>{'|'.join(UNITS)})\s*\(\s*(?P<of>[^(),]+?)\s*\)|(?P<column>[^(),]+))")
_ROW: Final = "row"

Values = tuple[str | None, ...]
"""Of one partition, a text for each term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word of the option partition.by."""

    column: str
    unit: str | None = None  # None: the column itself

    @property
    def name(self) -> str:
        """Of the partition."""
        return self.column if self.unit is None else f"{self.column}_{self.unit}"

    def __str__(self) -> str:
        return self.column if self.unit is None else f"{self.unit}({self.column})"


def parse_terms(text: str) -> tuple[Term, ...]:
    """The value of partition.by. Raises OptionRefused."""
    terms = tuple(_term(word.strip()) for word in text.split(",") if word.strip())
    if len({term.name for term in terms}) != len(terms):
        raise OptionRefused("partition.by", f"{text!r} names a partition twice")
    return terms


def check_terms(terms: Sequence[Term], schema: pa.Schema) -> None:
    """Raises OptionRefused where a column is missing, or cannot divide a table."""
    import pyarrow as pa

    for term in terms:
        if term.column not in schema.names:
            raise OptionRefused(
                "partition.by", f"there is no column {term.column!r}; there are {', '.join(schema.names)}"
            )
        kind = schema.field(term.column).type
        if term.unit is not None:
            if not (pa.types.is_timestamp(kind) or (pa.types.is_date(kind) and term.unit != "hour")):
                raise OptionRefused("partition.by", f"{term} wants a timestamp, and column {term.column!r} is {kind}")
            if term.name in schema.names:
                raise OptionRefused("partition.by", f"{term} would be called {term.name}, as a column of the rows is")
        elif not _can_divide(kind):
            raise OptionRefused(
                "partition.by",
                f"column {term.column!r} is {kind}; accepted are text, whole numbers, booleans and dates",
            )
    if len({term.column for term in terms if term.unit is None}) == len(schema.names):
        raise OptionRefused("partition.by", "at least one column must be left for the rows themselves")


def derived_fields(terms: Sequence[Term]) -> list[pa.Field]:
    """The columns that terms of time become in Delta."""
    import pyarrow as pa

    return [
        pa.field(term.name, pa.date32() if term.unit == "day" else pa.string())
        for term in terms
        if term.unit is not None
    ]


def with_derived(table: pa.Table, terms: Sequence[Term]) -> pa.Table:
    """The rows with those columns."""
    import pyarrow.compute as pc

    for field, term in zip(derived_fields(terms), [each for each in terms if each.unit], strict=True):
        floored = _key(table.column(term.column), term)
        table = table.append_column(field, pc.strftime(floored, UNITS[term.unit or ""]).cast(field.type))
    return table


def split(table: pa.Table, terms: Sequence[Term]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition. Raises BadRows for an empty text, which most readers take for none."""
    import pyarrow as pa

    if not terms:
        yield (), table
        return
    names = [str(index) for index in range(len(terms))]
    keys = pa.table([_key(table.column(term.column), term) for term in terms], names=names)
    groups = (
        keys.append_column(_ROW, pa.array(range(len(keys)), pa.int64())).group_by(names).aggregate([(_ROW, "list")])
    )
    for group in groups.to_batches(max_chunksize=1):
        values = tuple(_text(group.column(name), term) for name, term in zip(names, terms, strict=True))
        rows = table if len(groups) == 1 else table.take(group.column(f"{_ROW}_list")[0].values)
        yield values, rows


def _term(word: str) -> Term:
    found = _TERM.fullmatch(word)
    if found is None:
        raise OptionRefused(
            "partition.by", f"{word!r} is not accepted, but a column or {', '.join(UNITS)} of one is, as in day(at)"
        )
    return Term(column=found["of"] or found["column"].strip(), unit=found["unit"])


def _can_divide(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return any(
        check(kind) for check in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    )


def _key(column: pa.ChunkedArray, term: Term) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if term.unit is None:
        return column
    moments = column.cast(pa.timestamp("us")) if pa.types.is_date(column.type) else column
    return pc.floor_temporal(moments, unit=term.unit)


def _text(one: pa.Array, term: Term) -> str | None:
    """The value of a column of one row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if one.null_count:
        return None
    text: str = pc.strftime(one, UNITS[term.unit])[0].as_py() if term.unit else one.cast(pa.string())[0].as_py()
    if not text:
        raise BadRows(
            f"column {term.column!r} of partition.by is an empty text in a row, which no partition can be called"
        )
    return text

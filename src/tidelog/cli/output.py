"""Tables for people, JSON for programs."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO, TypeAlias

Cell: TypeAlias = "str | int | float | bool | Sequence[Cell] | Mapping[str, Cell] | None"
Row: TypeAlias = Mapping[str, Cell]


class OutputFormat(enum.Enum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"


def write_rows(out: TextIO, output_format: OutputFormat, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as one table with these columns, or as one JSON array of all their fields."""
    if output_format is OutputFormat.JSON:
        out.write(json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n")
    else:
        out.write(render_table(columns, [[shown(row.get(column)) for column in columns] for row in rows]))


def render_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under upper-case headings, as wide as their widest cell; no trailing blanks, so that it greps and diffs well."""
    table = [[heading(column) for column in columns], *rows]
    widths = [max(len(line[index]) for line in table) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join(lines) + "\n"


def heading(column: str) -> str:
    """LOG-END-OFFSET for log_end_offset: the way the field's tools write it."""
    return column.upper().replace("_", "-")


def shown(cell: Cell) -> str:
    """One cell for people: nothing is `-`, a list its members with commas."""
    match cell:
        case None | "":
            return "-"
        case bool():
            return "yes" if cell else "no"
        case str():
            return cell
        case Mapping():
            return ",".join(f"{key}={shown(value)}" for key, value in cell.items()) or "-"
        case Sequence():
            return ",".join(shown(member) for member in cell) or "-"
        case _:
            return str(cell)

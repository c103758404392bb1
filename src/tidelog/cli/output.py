"""Tables for people, JSON for programs; colour where somebody looks."""

from __future__ import annotations

import enum
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO, TypeAlias

Cell: TypeAlias = "str | int | float | bool | Sequence[Cell] | Mapping[str, Cell] | None"
Row: TypeAlias = Mapping[str, Cell]


_STYLES: Final = {"bold": "1", "red": "31", "green": "32"}
_NUMBER: Final = re.compile(r"-|-?[\d,.]+( [kMGT]?B)?")
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class OutputFormat(enum.Enum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"


def write_rows(out: TextIO, output_format: OutputFormat, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as one table with these columns, or as one JSON array of all their fields."""
    if output_format is OutputFormat.JSON:
        out.write(json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n")
    else:
        cells = [[shown(row.get(column)) for column in columns] for row in rows]
        out.write(render_table(columns, cells, in_colour=is_coloured(out)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows by field, the headings of those that are shown, and what there is to say beside them."""

    headings: Mapping[str, str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    has_failed: bool = False

    def write(self, out: TextIO, output_format: OutputFormat) -> None:
        """Write the headed fields as a table, or all fields as JSON."""
        if output_format is OutputFormat.JSON:
            write_rows(out, output_format, (), self.rows)
        elif self.rows:
            lines = [{heading: row.get(field) for field, heading in self.headings.items()} for row in self.rows]
            write_rows(out, output_format, tuple(self.headings.values()), lines)


def render_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, in_colour: bool = False) -> str:
    """Columns under upper-case headings, as wide as their widest cell, numbers to the right.

    Lines have no trailing blanks, so that it greps and diffs well.
    """
    table = [[heading(column) for column in columns], *rows]
    widths = [max(len(line[index]) for line in table) for index in range(len(columns))]
    is_right = [_holds_numbers([line[index] for line in rows]) for index in range(len(columns))]
    first, *others = ["  ".join(map(_aligned, line, widths, is_right)).rstrip() for line in table]
    return "\n".join([paint(first, "bold", wanted=in_colour), *others]) + "\n"


def _holds_numbers(cells: Sequence[str]) -> bool:
    return any(cell != "-" for cell in cells) and all(_NUMBER.fullmatch(cell) for cell in cells)


def _aligned(cell: str, width: int, is_right: bool) -> str:  # noqa: FBT001  # one of three columns that are mapped over
    return cell.rjust(width) if is_right else cell.ljust(width)


def is_coloured(out: TextIO) -> bool:
    """Whether a person looks at this who has not asked for plain text (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, *, wanted: bool) -> str:
    """The text in a style, if that is wanted."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if wanted else text


def size(byte_count: float) -> str:
    """`1.5 MB`: three digits or so, in powers of ten."""
    unit = 0
    while byte_count >= 999.5 and unit + 1 < len(_UNITS):
        byte_count /= 1000
        unit += 1
    return (
        f"{byte_count:.0f} {_UNITS[unit]}" if unit == 0 or byte_count >= 99.95 else f"{byte_count:.1f} {_UNITS[unit]}"
    )


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

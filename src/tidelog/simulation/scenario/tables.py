"""Tables of replicas: as they are written in a scenario, as they are, and how they differ.

Cells are parted by two blanks or more. A table may leave columns out, then they are not looked at; it may not leave out a replica.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BROKER: Final = "broker"
COLUMNS: Final = (BROKER, "role", "LEO", "HW", "LSO", "remote", "epochs", "ISR", "records")
_GAP: Final = re.compile(r" {2,}")
_NUMBERS: Final = ("LEO", "HW", "LSO")


class TableError(ValueError):
    """A table is not understood; `row` counts its lines from 0."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; every row has as many cells as there are columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def only(self, columns: Sequence[str]) -> Table:
        """The same rows with these columns, in this order."""
        places = [self.columns.index(column) for column in columns]
        return Table(tuple(columns), tuple(tuple(row[place] for place in places) for row in self.rows))

    def without(self, column: str) -> Table:
        """The same rows without a column."""
        return self.only([each for each in self.columns if each != column])

    def lines(self) -> list[str]:
        """The table as text."""
        cells = [self.columns, *self.rows]
        widths = [max(len(line[index]) for line in cells) for index in range(len(self.columns))]
        return ["  ".join(self._aligned(line, widths)).rstrip() for line in cells]

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for cell, width, column in zip(line, widths, self.columns, strict=True)
        ]


def parse_table(lines: Sequence[str]) -> Table:
    """Read a heading and rows. Raises TableError."""
    columns = tuple(_GAP.split(lines[0].strip()))
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown or columns[0] != BROKER:
        raise TableError(
            0,
            f"expected a result (> ...), an event (* ...) or a heading of these columns, the first of them first: "
            f"{', '.join(COLUMNS)}" + (f"; not {', '.join(unknown)}" if unknown else ""),
        )
    rows = []
    for number, line in enumerate(lines[1:], start=1):
        cells = tuple(_GAP.split(line.strip()))
        if len(cells) != len(columns):
            raise TableError(number, f"{len(cells)} cells under {len(columns)} columns; two blanks part cells")
        rows.append(cells)
    return Table(columns, tuple(rows))


def differences(expected: Table, actual: Table) -> list[str]:
    """A sentence per cell that is not as expected."""
    ours = actual.only(expected.columns)
    if [row[0] for row in ours.rows] != [row[0] for row in expected.rows]:
        return [f"the replicas are on {', '.join(row[0] for row in ours.rows)}"]
    return [
        f"{name} of {wanted[0]} is {found}, not {cell}"
        for wanted, actual_row in zip(expected.rows, ours.rows, strict=True)
        for name, cell, found in zip(expected.columns, wanted, actual_row, strict=True)
        if cell != found
    ]

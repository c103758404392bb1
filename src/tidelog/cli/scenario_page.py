"""How a scenario looks on a terminal: prose, commands, what they said, every replica, what happened, and what to notice."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.output import Cell, Row, paint

if TYPE_CHECKING:
    from tidelog.simulation.scenario import Played, Scenario, Step, Table

_INDENT: Final = "  "
_NOTICE: Final = "Notice:"


class Page:
    """Writes steps; cells that changed since the step before are painted, where colour is wanted."""

    def __init__(self, *, width: int, in_colour: bool) -> None:
        self._width = width
        self._in_colour = in_colour
        self._before: Table | None = None
        self._has_transactions = False

    def title(self, scenario: Scenario) -> str:
        """The head of the page."""
        return f"{paint(scenario.title, 'bold', wanted=self._in_colour)}\n{self._prose([scenario.summary])}"

    def announced(self, step: Step, number: int, count: int) -> str:
        """What is about to be done."""
        head = paint(f"step {number} of {count}", "bold", wanted=self._in_colour)
        commands = "".join(f"{_INDENT}$ {command.text}\n" for command in step.commands)
        return f"{self._prose([*step.intro, ''])}{head}\n{commands}" if step.intro else f"{head}\n{commands}"

    def told(self, played: Played, problems: Sequence[str]) -> str:
        """What came of it, and what is wrong with that."""
        lines = [*(f"> {result}" for result in played.results), *self._table(played.table)]
        lines += [f"* {event}" for event in played.events]
        lines += [] if played.remark is None else [f"({played.remark})"]
        self._before = played.table
        text = "".join(f"{_INDENT}{line}\n" for line in lines)
        text += "".join(f"{self._bad(problem)}\n" for problem in problems)
        if not played.step.notice:
            return f"{text}\n"
        notice = self._prose([f"{_NOTICE} {paragraph}" for paragraph in played.step.notice])
        return f"{text}\n{notice.replace(_NOTICE, paint(_NOTICE, 'bold', wanted=self._in_colour))}\n"

    def outro(self, scenario: Scenario) -> str:
        """What is left to say."""
        return self._prose(scenario.outro)

    def verdict(self, problems: Sequence[str]) -> str:
        """Whether it went as written."""
        if not problems:
            return paint("it went as written", "green", wanted=self._in_colour) + "\n"
        return self._bad("it did not go as written") + "\n"

    def _bad(self, text: str) -> str:
        return paint(text, "red", wanted=self._in_colour)

    def _prose(self, paragraphs: Sequence[str]) -> str:
        return "".join(f"{textwrap.fill(paragraph, self._width)}\n" for paragraph in paragraphs)

    def _table(self, table: Table | None) -> Iterator[str]:
        if table is None:
            return
        plain = self._shown(table).lines()
        yield paint(plain[0], "bold", wanted=self._in_colour)
        before = {} if self._before is None else {row[0]: row for row in self._before.rows}
        for line, row in zip(plain[1:], table.rows, strict=True):
            is_changed = bool(before) and before.get(row[0]) != row
            yield paint(line, "green", wanted=self._in_colour and is_changed)

    def _shown(self, table: Table) -> Table:
        """The last stable offset says nothing before a transaction has been open: until then it is the high watermark."""
        limits = table.only(["HW", "LSO"]).rows
        self._has_transactions = self._has_transactions or any(watermark != stable for watermark, stable in limits)
        return table if self._has_transactions else table.without("LSO")


def rows(played: Sequence[Played]) -> list[Row]:
    """Every step for programs."""
    return [
        {
            "line": one.step.line,
            "now_ms": round(one.now_ms, 3),
            "commands": [command.text for command in one.step.commands],
            "results": list(one.results),
            "replicas": _replicas(one.table),
            "events": list(one.events),
            "remark": one.remark,
            "notice": list(one.step.notice),
            "problems": list(one.problems),
        }
        for one in played
    ]


def _replicas(table: Table | None) -> list[Row]:
    if table is None:
        return []
    return [
        {column.lower(): _number(cell) for column, cell in zip(table.columns, row, strict=True)} for row in table.rows
    ]


def _number(cell: str) -> Cell:
    if cell == "-":
        return None
    return int(cell) if cell.isdecimal() else cell

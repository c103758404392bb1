"""The text of a scenario: a title, a summary, prose, and steps of commands and what they lead to.

    Loss by high watermark
    An acknowledged record is lost when logs are cut back to the high watermark.

    Prose begins with a capital letter and introduces the step below it.

    kill A
    wait leader = B
    ----
    > what commands say, such as where a record was acknowledged
    broker  role    LEO  HW
    A       down    -    -
    B       leader  1    1
    * C  broker failed broker=A

    Notice: prose that begins so belongs to the step above it.

Paragraphs are parted by empty lines. One with a line `----` is a step. Result lines (`>`) and the table are written by hand from what
ought to happen; event lines (`*`) may be rewritten from what did happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.simulation.scenario.tables import Table, TableError, parse_table

DIVIDER: Final = "----"
RESULT: Final = "> "
EVENT: Final = "* "
NOTICE: Final = "Notice:"


class ScenarioError(Exception):
    """The text says something that is not understood, or that cannot be done; names file and line."""

    def __init__(self, where: str, line: int, message: str) -> None:
        super().__init__(f"{where}:{line}: {message}")
        self.where = where
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One line before the divider: words, and options of the form name=value."""

    line: int
    text: str
    verb: str
    words: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is done, and what is expected of it. Lines are counted from 1; `end_line` is the last of the expectations."""

    line: int
    end_line: int
    intro: tuple[str, ...]
    commands: tuple[Command, ...]
    results: tuple[str, ...]
    table: Table | None
    events: tuple[str, ...]
    notice: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A whole file."""

    where: str
    title: str
    summary: str
    steps: tuple[Step, ...]
    outro: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A step whose notice may still come."""

    block: _Block
    intro: tuple[str, ...]
    notice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines without an empty one between them, and the number of the first."""

    line: int
    lines: tuple[str, ...]

    @property
    def is_step(self) -> bool:
        return DIVIDER in self.lines


def parse(text: str, *, where: str = "scenario") -> Scenario:
    """Read a scenario. Raises ScenarioError."""
    blocks = list(_blocks(text))
    if not blocks or blocks[0].is_step or len(blocks[0].lines) != 2:
        raise ScenarioError(where, 1, "a scenario begins with a title and a summary, one line each, and an empty line")
    title, summary = blocks[0].lines
    drafts: list[_Draft] = []
    prose: list[str] = []
    for block in blocks[1:]:
        if block.is_step:
            drafts.append(_Draft(block=block, intro=tuple(prose)))
            prose = []
        elif _is_notice(block, where) and drafts and not prose:
            drafts[-1].notice = (*drafts[-1].notice, _joined(block).removeprefix(NOTICE).strip())
        else:
            prose.append(_joined(block))
    if not drafts:
        raise ScenarioError(where, blocks[-1].line, f"there is no step: commands, then a line {DIVIDER}")
    steps = tuple(_step(draft, where) for draft in drafts)
    return Scenario(where=where, title=title, summary=summary, steps=steps, outro=tuple(prose))


def _blocks(text: str) -> Iterator[_Block]:
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            yield _Block(number - len(lines), tuple(lines))
            lines = []


def _is_notice(block: _Block, where: str) -> bool:
    first = block.lines[0]
    if first.startswith(NOTICE):
        return True
    if first[0].islower():
        raise ScenarioError(
            where, block.line, f"commands need a line {DIVIDER} below them; prose begins with a capital letter"
        )
    return False


def _joined(block: _Block) -> str:
    return " ".join(line.strip() for line in block.lines)


def _step(draft: _Draft, where: str) -> Step:
    block = draft.block
    divider = block.lines.index(DIVIDER)
    if divider == 0:
        raise ScenarioError(where, block.line, f"there is no command above {DIVIDER}")
    commands = tuple(
        _command(line, block.line + index, where) for index, line in enumerate(block.lines[:divider]) if line
    )
    expected = block.lines[divider + 1 :]
    first_expected = block.line + divider + 1
    rows = [(first_expected + index, line) for index, line in enumerate(expected) if not _is_marked(line)]
    return Step(
        line=block.line,
        end_line=block.line + len(block.lines) - 1,
        intro=draft.intro,
        commands=commands,
        results=tuple(line.removeprefix(RESULT).strip() for line in expected if line.startswith(RESULT)),
        table=_table(rows, where),
        events=tuple(line.removeprefix(EVENT).strip() for line in expected if line.startswith(EVENT)),
        notice=draft.notice,
    )


def _is_marked(line: str) -> bool:
    return line.startswith((RESULT, EVENT))


def _table(rows: Sequence[tuple[int, str]], where: str) -> Table | None:
    if not rows:
        return None
    try:
        return parse_table([line for _, line in rows])
    except TableError as error:
        raise ScenarioError(where, rows[error.row][0], str(error)) from None


def _command(text: str, line: int, where: str) -> Command:
    words: list[str] = []
    options: list[tuple[str, str]] = []
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals and name and value:
            options.append((name, value))
        else:
            words.append(word)
    if not words:
        raise ScenarioError(where, line, f"no command begins with {text.split()[0]!r}")
    return Command(line=line, text=text.strip(), verb=words[0], words=tuple(words[1:]), options=tuple(options))

"""The statements of a SQL definition file, as far as an always-on run can do them: a triggered run leaves SQL to Spark as it is. Pure.

Understood are CREATE STREAMING TABLE ... AS, CREATE TEMPORARY VIEW ... AS and CREATE FLOW ... AS INSERT INTO ... BY NAME. The query behind
AS is handed to Spark to the letter. What is not understood is refused by file and line, and never passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STREAMING_TABLE: Final = "streaming table"
MATERIALIZED_VIEW: Final = "materialized view"
TEMPORARY_VIEW: Final = "temporary view"
FLOW: Final = "flow"

_NAME: Final = r"(?P<name>(?:`[^`]+`|[\w]+)(?:\s*\.\s*(?:`[^`]+`|\w+))*)"
_TARGET: Final = _NAME.replace("?P<name>", "?P<target>")
_QUERY: Final = r"(?P<query>.+)"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_PATTERNS: Final = {
    STREAMING_TABLE: re.compile(
        rf"CREATE\s+(?:OR\s+REFRESH\s+)?STREAMING\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}"
        rf"(?:\s+USING\s+(?P<format>\w+))?(?:\s+AS\s+{_QUERY})?$", _FLAGS,
    ),
    MATERIALIZED_VIEW: re.compile(
        rf"CREATE\s+(?:OR\s+\w+\s+)?MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}.*$", _FLAGS
    ),
    TEMPORARY_VIEW: re.compile(
        rf"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+{_NAME}\s+AS\s+{_QUERY}$", _FLAGS
    ),
    FLOW: re.compile(rf"CREATE\s+FLOW\s+{_NAME}\s+AS\s+INSERT\s+INTO\s+{_TARGET}\s+BY\s+NAME\s+{_QUERY}$", _FLAGS),
}  # fmt: skip
_SKIPPED: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
_COMMENT: Final = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_SHOWN_MAX: Final = 60


class StatementRefused(Exception):
    """A statement that an always-on run cannot do; the message has file and line, and what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement: what it makes, and of what."""

    kind: str
    name: str
    line: int
    target: str | None = None  # of a flow
    query: str | None = None  # None for a streaming table that only flows fill
    format: str | None = None


def statements(text: str, file: Path) -> list[Statement]:
    """All statements of a file, in order. Raises StatementRefused."""
    return [_understood(part, line, file) for part, line in _parts(text)]


def _understood(part: str, line: int, file: Path) -> Statement:
    for kind, pattern in _PATTERNS.items():
        if found := pattern.match(part):
            groups = found.groupdict()
            return Statement(
                kind=kind,
                name=_plain(groups["name"]),
                line=line,
                target=None if groups.get("target") is None else _plain(groups["target"]),
                query=groups.get("query"),
                format=groups.get("format"),
            )
    shown = " ".join(part.split())[:_SHOWN_MAX]
    raise StatementRefused(
        f"{file}, line {line}: an always-on run does not understand `{shown}`; it knows CREATE STREAMING TABLE name [USING format] AS, "
        "CREATE TEMPORARY VIEW name AS, and CREATE FLOW name AS INSERT INTO target BY NAME. Leave --continuous out, or write it in Python"
    )


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Statements without what surrounds them, and the line at which each begins. A semicolon in quotes or a comment divides nothing."""
    begin = 0
    for end in [*_semicolons(text), len(text)]:
        part = text[begin:end]
        leading = _COMMENT.match(part)
        at = begin + (leading.end() if leading else 0)
        if text[at:end].strip():
            yield text[at:end].strip(), text.count("\n", 0, at) + 1
        begin = end + 1


def _semicolons(text: str) -> list[int]:
    blanked = _SKIPPED.sub(lambda found: " " * len(found[0]), text)
    return [index for index, letter in enumerate(blanked) if letter == ";"]


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("`") for part in name.split("."))

"""The syntax of Java's `.properties` files, in which `server.properties` is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidelog.config.errors import ConfigError

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_KEY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_BROKEN_UNICODE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})")
_NAMED_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Read `key=value`, `key:value` and `key value` lines, comments, continuations, escapes; the last value wins."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        if _BROKEN_UNICODE.search(line) is not None:
            raise ConfigError(line.strip(), "\\u", "a backslash u followed by four hexadecimal digits")
        found = _KEY.fullmatch(line)
        if found is not None:
            properties[_unescape(found[1])] = _unescape(found[2])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a line that ends in an odd number of backslashes goes on in the next."""
    pending = ""
    is_continuation = False
    for raw in _LINE_END.split(text):
        line = raw.lstrip(_BLANKS)
        if not is_continuation and (not line or line[0] in "#!"):
            continue
        is_continuation = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        pending += line[:-1] if is_continuation else line
        if not is_continuation:
            yield pending
            pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_replacement, text)


def _replacement(escape: re.Match[str]) -> str:
    body = escape[1]
    return chr(int(body[1:], 16)) if len(body) == 5 else _NAMED_ESCAPES.get(body, body)

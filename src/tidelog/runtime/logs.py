"""Log lines: a constant sentence and fields. One renderer serves the process log and the simulation trace, so both read the same.

logger.info("leader elected", extra=fields(partition=topic_partition, leader_epoch=3))
-> leader elected partition=orders-0 leader_epoch=3
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

FIELDS_ATTRIBUTE: Final = "fields"
VALUE_LENGTH_MAX: Final = 500
_PLAIN: Final = re.compile(r"[^\s\"=]+")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """What to pass as `extra`; any name is allowed, also those logging keeps for itself."""
    return {FIELDS_ATTRIBUTE: values}


def render(sentence: str, values: Mapping[str, object]) -> str:
    """One line of text; a value with blanks or quotes in it is quoted, and never breaks the line."""
    return " ".join([sentence, *(f"{name}={_rendered(value)}" for name, value in values.items())])


def _rendered(value: object) -> str:
    """Values may come from the network (a client id, a topic name): control characters are escaped, long ones cut.

    A set is sorted, because its own order changes with PYTHONHASHSEED and a trace must not.
    """
    text = f"{{{', '.join(sorted(map(str, value)))}}}" if isinstance(value, set | frozenset) else str(value)
    if len(text) > VALUE_LENGTH_MAX:
        text = f"{text[:VALUE_LENGTH_MAX]}... ({len(text)} characters)"
    if text.isprintable() and _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped)
    return f'"{escaped}"'
